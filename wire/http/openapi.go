package viewhttp

import (
	_ "embed" // for schemas.yaml
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed schemas.yaml
var schemas string

// common are the answers that every operation may give, and those of writes.
var (
	common = []reply{
		failed(http.StatusBadRequest, "the request can never succeed as it is"),
		failed(http.StatusUnauthorized, "the bearer token is missing or wrong"),
		failed(http.StatusInternalServerError, "a bug, or damaged data"),
		failed(http.StatusServiceUnavailable, "it may succeed later: no memory, no place, the server is stopping"),
		failed(http.StatusGatewayTimeout, "the position of Mainstem-Wait-For did not come within 30 s"),
	}
	ofBodies = []reply{
		failed(http.StatusRequestTimeout, "the request did not arrive in time"),
		failed(http.StatusRequestEntityTooLarge, "the request is larger than the server takes"),
	}
	ofKeys = []reply{failed(http.StatusUnprocessableEntity, "the idempotency key was used for another request")}
)

// ofAll are the parameters of every operation.
var ofAll = []parameter{{inHeader, headerWaitFor, "integer", false, "answer when this server has come to this position"}}

// replies returns all answers of an operation, by their status.
func (o *operation) replies() []reply {
	all := slices.Concat(o.answers, common)
	if o.body != "" {
		all = append(all, ofBodies...)
	}
	if o.parameter(inHeader, headerKey) != nil {
		all = append(all, ofKeys...)
	}
	slices.SortStableFunc(all, func(a, b reply) int { return a.status - b.status })
	return all
}

// openAPI is the description of all routes, in YAML.
var openAPI = sync.OnceValue(func() string {
	var b strings.Builder
	b.WriteString(`openapi: 3.1.0
info:
  title: Mainstem
  version: '1'
  description: The views of one log. docs/http.md is the guide.
  license: {name: Apache-2.0, identifier: Apache-2.0}
security: [{}, {token: []}]
paths:
`)
	for i := range routes {
		routes[i].describe(&b)
	}
	b.WriteString("components:\n  securitySchemes:\n    token: {type: http, scheme: bearer}\n  schemas:\n" + schemas)
	return b.String()
})

func (r *route) describe(b *strings.Builder) {
	fmt.Fprintf(b, "  %s:\n", r.pattern)
	if names := r.parameters(); len(names) > 0 {
		b.WriteString("    parameters:\n")
		for _, name := range names {
			fmt.Fprintf(b, "      - {name: %s, in: path, required: true, schema: {type: string}}\n", name)
		}
	}
	for i := range r.operations {
		r.operations[i].describe(b)
	}
}

// parameters returns the names of the parameters of the path.
func (r *route) parameters() []string {
	var names []string
	for part := range strings.SplitSeq(r.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

func (o *operation) describe(b *strings.Builder) {
	fmt.Fprintf(b, "    %s:\n      operationId: %s\n      summary: %s\n      parameters:\n", strings.ToLower(o.method), o.id, o.summary)
	for _, p := range slices.Concat(o.parameters, ofAll) {
		schema := "{type: " + p.kind + "}"
		if p.many {
			schema = "{type: array, items: " + schema + "}"
		}
		fmt.Fprintf(b, "        - {name: '%s', in: %s, schema: %s, description: %s}\n", p.name, p.in, schema, strconv.Quote(p.help))
	}
	if o.body != "" {
		fmt.Fprintf(b, "      requestBody:\n        content:\n          %s\n", content(o.body, o.list))
	}
	b.WriteString("      responses:\n")
	for _, a := range o.replies() {
		a.describe(b)
	}
}

// content is a body of a schema.
func content(schema string, list bool) string {
	media, ref := mediaJSON, "{$ref: '#/components/schemas/"+schema+"'}"
	switch {
	case schema == "bytes":
		media = mediaBytes
	case schema == "problem":
		media = mediaProblem
	case schema == "yaml":
		media, ref = mediaYAML, "{type: string}"
	case list:
		ref = "{type: array, items: " + ref + "}"
	}
	return media + ": {schema: " + ref + "}"
}

func (a *reply) describe(b *strings.Builder) {
	fmt.Fprintf(b, "        '%d':\n          description: %s\n", a.status, strconv.Quote(a.help))
	if a.schema == "" {
		return
	}
	b.WriteString("          content:\n            " + content(a.schema, false) + "\n")
	if a.lines {
		b.WriteString("            " + mediaLines + ": {schema: {type: string}}\n")
	}
	if a.events {
		b.WriteString("            " + mediaEvents + ": {schema: {type: string}}\n")
	}
}

const mediaYAML = "application/yaml"

func getOpenAPI(c *call) error {
	c.w.Header().Set("Content-Type", mediaYAML)
	c.w.WriteHeader(http.StatusOK)
	return c.write([]byte(openAPI()))
}

func openAPIRoutes() []route {
	return []route{{"/v1/openapi.yaml", []operation{{
		method: http.MethodGet, id: "getOpenAPI", summary: "This description", serve: getOpenAPI,
		answers: []reply{ok("yaml", "OpenAPI 3.1")},
	}}}}
}
