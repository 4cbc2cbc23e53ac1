package viewhttp

import (
	"net/http"
	"net/url"
	"strings"
)

// route is a path with its methods. Segments in braces are parameters.
type route struct {
	pattern    string
	operations []operation
}

// operation is one method of a route, with all that /v1/openapi.yaml says of it.
type operation struct {
	method     string
	id         string // operationId: what generated clients call it
	summary    string
	parameters []parameter // besides those of the path
	body       string      // name of the schema of the request; "": it has none; "bytes": any
	list       bool        // the body is an array of it
	answers    []reply     // besides those that all have
	serve      func(c *call) error
}

// reply is an answer of an operation.
type reply struct {
	status int
	schema string // "": no body; "bytes": any; "problem"
	lines  bool   // as a list without an end, too: application/x-ndjson
	events bool   // as a follower, too: text/event-stream
	help   string
}

// parameter of an operation.
type parameter struct {
	in   string
	name string
	kind string // of the value: the name of a schema of JSON
	many bool   // may be there several times
	help string
}

// Where parameters are.
const (
	inQuery  = "query"
	inHeader = "header"
)

// name returns the pattern, "" for no route.
func (r *route) name() string {
	if r == nil {
		return ""
	}
	return r.pattern
}

// operation returns what answers a method; HEAD is GET without a body.
func (r *route) operation(method string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range r.operations {
		if r.operations[i].method == method {
			return &r.operations[i]
		}
	}
	return nil
}

// allowed lists the methods as the header Allow does.
func (r *route) allowed() string {
	var all []string
	for i := range r.operations {
		all = append(all, r.operations[i].method)
		if r.operations[i].method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
	}
	return strings.Join(append(all, http.MethodOptions), ", ")
}

// parameter returns the parameter in a place, nil if there is none of that name.
func (o *operation) parameter(in, name string) *parameter {
	for i := range o.parameters {
		if p := &o.parameters[i]; p.in == in && p.name == name {
			return p
		}
	}
	return nil
}

// queryNames lists the parameters of the query, for errors.
func (o *operation) queryNames() string {
	var all []string
	for i := range o.parameters {
		if o.parameters[i].in == inQuery {
			all = append(all, o.parameters[i].name)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// routeOf finds the route of an escaped path, and the parameters in it, unescaped. The path is
// taken as it is: an empty segment is one, and "%2F" in a segment is a slash of the parameter.
// Of two routes the one that stands first in the table has it.
func routeOf(escaped string) (*route, map[string]string) {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i := range routes {
		if params, ok := routes[i].match(segments); ok {
			return &routes[i], params
		}
	}
	return nil, nil
}

func (r *route) match(segments []string) (map[string]string, bool) {
	pattern := strings.Split(strings.TrimPrefix(r.pattern, "/"), "/")
	if len(pattern) != len(segments) {
		return nil, false
	}
	params := map[string]string{}
	for i, want := range pattern {
		name, isParam := strings.CutPrefix(want, "{")
		switch {
		case !isParam && segments[i] != want:
			return nil, false
		case isParam:
			v, err := url.PathUnescape(segments[i])
			if err != nil || v == "" {
				return nil, false
			}
			params[strings.TrimSuffix(name, "}")] = v
		}
	}
	return params, true
}
