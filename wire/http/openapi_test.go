package viewhttp_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"
)

// described is /v1/openapi.yaml as far as the tests look at it.
type described struct {
	OpenAPI    string                          `yaml:"openapi"`
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Schemas map[string]any `yaml:"schemas"`
	} `yaml:"components"`
}

// describedOperation is one method of a path.
type describedOperation struct {
	ID         string                           `yaml:"operationId"`
	Parameters []struct{ Name, In string }      `yaml:"parameters"`
	Responses  map[string]struct{ Content any } `yaml:"responses"`
}

func describe(t testing.TB, c client) (described, string) {
	t.Helper()
	text := c.get("/v1/openapi.yaml").body
	var d described
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d, text
}

// operations calls do with every method of every path.
func (d described) operations(t testing.TB, do func(path, method string, o describedOperation)) {
	t.Helper()
	for path, methods := range d.Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var o describedOperation
			if err := node.Decode(&o); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			do(path, strings.ToUpper(method), o)
		}
	}
}

// TestDescriptionOfTheRoutes: every operation of /v1/openapi.yaml is answered, a method that is
// not there is refused, and whatever it refers to is in it.
func TestDescriptionOfTheRoutes(t *testing.T) {
	c := serve(t, nil)
	d, text := describe(t, c)
	equal(t, "version", d.OpenAPI, "3.1.0")
	if len(d.Paths) < 18 {
		t.Errorf("only %d paths", len(d.Paths))
	}
	for _, m := range regexp.MustCompile(`#/components/schemas/(\w+)`).FindAllStringSubmatch(text, -1) {
		if d.Components.Schemas[m[1]] == nil {
			t.Errorf("the schema %s is not there", m[1])
		}
	}
	ids := map[string]bool{}
	param := regexp.MustCompile(`\{\w+\}`)
	d.operations(t, func(path, method string, o describedOperation) {
		if o.ID == "" || ids[o.ID] {
			t.Errorf("%s %s: the operationId %q is missing, or there twice", method, path, o.ID)
		}
		ids[o.ID] = true
		resp := c.request(t.Context(), method, param.ReplaceAllString(path, "x")+"?nothing", "")
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest { // for the parameter that no operation has
			t.Errorf("%s %s: status %d", method, path, resp.StatusCode)
		}
	})
	if c.documented("GET", "/v1/kv/a/b/c", 418) || !c.documented("HEAD", "/v1/kv/a/b/c?x", 304) {
		t.Error("the statuses of the description are not those that it has")
	}
	for path, methods := range d.Paths {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			_, there := methods[strings.ToLower(method)]
			resp := c.request(t.Context(), method, param.ReplaceAllString(path, "x")+"?nothing", "")
			resp.Body.Close()
			if there == (resp.StatusCode == http.StatusMethodNotAllowed) {
				t.Errorf("%s %s: described %v, status %d", method, path, there, resp.StatusCode)
			}
		}
	}
}

// statuses are those that the description has, by a pattern of paths and by method.
type statuses struct {
	path    *regexp.Regexp
	methods map[string]map[string]bool
}

// statusTable is the description of the first server that is asked: it is the same for all.
var statusTable struct {
	sync.Mutex
	rows []statuses // those with fewer parameters first
}

// documented reports whether the description has a status of an operation. Of paths and methods
// that are not there it has none.
func (c client) documented(method, path string, status int) bool {
	c.t.Helper()
	statusTable.Lock()
	defer statusTable.Unlock()
	if statusTable.rows == nil {
		statusTable.rows = []statuses{{path: regexp.MustCompile("^/v1/openapi.yaml$")}} // describe asks, too
		statusTable.Unlock()
		d, _ := describe(c.t, c)
		statusTable.Lock()
		statusTable.rows = rowsOf(c.t, d)
	}
	path, _, _ = strings.Cut(path, "?")
	for _, row := range statusTable.rows {
		if row.path.MatchString(path) {
			known, there := row.methods[strings.Replace(method, "HEAD", "GET", 1)]
			return !there || known[strconv.Itoa(status)]
		}
	}
	return true
}

func rowsOf(t testing.TB, d described) []statuses {
	rows := map[string]statuses{}
	d.operations(t, func(path, method string, o describedOperation) {
		row, ok := rows[path]
		if !ok {
			expression := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
			row = statuses{regexp.MustCompile("^" + expression + "$"), map[string]map[string]bool{}}
		}
		row.methods[method] = map[string]bool{}
		for status := range o.Responses {
			row.methods[method][status] = true
		}
		rows[path] = row
	})
	paths := slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	var out []statuses
	for _, path := range paths {
		out = append(out, rows[path])
	}
	return out
}
