package omnibus

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// kind is what a path names.
type kind uint8

const (
	unknownRoute    kind = iota
	factoryRoute         // sql/factory
	systemRoute          // [systemPath]
	collectionRoute      // <database>/<table>
	rowRoute             // <database>/<table>/<RowSerial> and …/kf/<KeyField>
)

var kindNames = [...]string{"none", "sql", "system", "table", "row"}

func (k kind) String() string { return kindNames[k] }

// methods are the methods that a path has, with the role that each needs.
type methods map[string]Role

func (m methods) String() string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

var methodsOf = [...]methods{
	factoryRoute:    {http.MethodPost: Reader},
	systemRoute:     {http.MethodGet: Reader},
	collectionRoute: {http.MethodGet: Reader, http.MethodPost: Writer, http.MethodPatch: Writer, http.MethodDelete: Writer},
	rowRoute:        {http.MethodGet: Reader, http.MethodPatch: Writer, http.MethodDelete: Writer},
}

func (k kind) methods() methods { return methodsOf[k] }

// route is a path that was understood.
type route struct {
	kind            kind
	database, table string
	serial          int64  // of rowRoute, if keyField is empty
	keyField        string // of rowRoute
	path            string // of the collection or row, as the client escaped it, from [Prefix] on
}

// parseRoute reads an escaped path. Doubled slashes and one at the end are ignored, as
// clients join addresses carelessly.
func parseRoute(path string) (route, error) {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(Prefix, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return route{}, notFound("there is nothing at %.200q: all paths begin with %s", path, Prefix)
	}
	var parts []string
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" {
			continue
		}
		p, err := url.PathUnescape(part)
		if err != nil {
			return route{}, badRequest("the path %.200q: %w", path, err)
		}
		if parts = append(parts, p); len(parts) > 4 {
			break
		}
	}
	r := route{}
	switch {
	case len(parts) == 1 && parts[0] == systemPath:
		r.kind = systemRoute
		return r, nil
	case len(parts) == 2 && parts[0] == "sql" && parts[1] == "factory":
		r.kind = factoryRoute
		return r, nil
	case len(parts) == 2:
		r.kind = collectionRoute
	case len(parts) == 3:
		n, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return r, notFound("%.60q is no row serial: a row is %s<database>/<table>/<number> or …/kf/<key field>", parts[2], Prefix)
		}
		r.kind, r.serial = rowRoute, n
	case len(parts) == 4 && parts[2] == "kf":
		r.kind, r.keyField = rowRoute, parts[3]
	default:
		return r, notFound("there is nothing at %.200q: want %s<database>/<table>, a row below it, or %[2]ssql/factory", path, Prefix)
	}
	r.database, r.table = parts[0], parts[1]
	r.path = strings.TrimSuffix(Prefix, "/") + rest
	return r, nil
}

// collection returns the path of the collection that r is, or is in.
func (r *route) collection() string {
	return Prefix + url.PathEscape(r.database) + "/" + url.PathEscape(r.table)
}
