package viewhttp

import (
	"net/http"
	"slices"
	"testing"
)

// TestEveryWriteSaysWhetherItTakesAKey: a write takes an idempotency key, or gives the reason why not.
func TestEveryWriteSaysWhetherItTakesAKey(t *testing.T) {
	known := map[string]bool{}
	for i := range routes {
		for j := range routes[i].operations {
			o := &routes[i].operations[j]
			known[o.id] = true
			takes, reason := o.parameter(inHeader, headerKey) != nil, keyless[o.id] != ""
			switch {
			case o.method == http.MethodGet && (takes || reason):
				t.Errorf("%s is a read: it has no idempotency key", o.id)
			case o.method != http.MethodGet && takes == reason:
				t.Errorf("%s %s (%s): it takes a key: %v; it has a reason in keyless: %v", o.method, routes[i].pattern, o.id, takes, reason)
			}
		}
	}
	for id := range keyless {
		if !known[id] {
			t.Errorf("keyless has %s, which is no operation", id)
		}
	}
}

// TestHeadersOfWritesAreHashed: a header that changes what a write does makes it another request.
func TestHeadersOfWritesAreHashed(t *testing.T) {
	others := []string{headerKey, headerWaitFor, headerMeta + "*"}
	for i := range routes {
		for j := range routes[i].operations {
			o := &routes[i].operations[j]
			if o.parameter(inHeader, headerKey) == nil {
				continue
			}
			for _, p := range o.parameters {
				if p.in == inHeader && !slices.Contains(others, p.name) && !slices.Contains(requestHeaders, p.name) {
					t.Errorf("%s has the header %s, which is not in requestHeaders", o.id, p.name)
				}
			}
		}
	}
}
