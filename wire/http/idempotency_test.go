package viewhttp_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestOtherHeadersAreOtherRequests: the key of a snapshot is of one version and type.
func TestOtherHeadersAreOtherRequests(t *testing.T) {
	c := serve(t, nil)
	placed(c, "order-1", 3)
	send := func(status int, version, kind string) answer {
		t.Helper()
		return c.do(status, "PUT", orders+"/snapshot", "state", "Idempotency-Key", "k", "Mainstem-Version", version, "Mainstem-Type", kind)
	}
	send(204, "2", "order.v1")
	send(422, "3", "order.v1")
	send(422, "2", "order.v2")
	c.do(204, "DELETE", orders+"/snapshot", "")
	equal(t, "duplicate", send(204, "2", "order.v1").header.Get("Mainstem-Duplicate"), "true")
	c.do(404, "GET", orders+"/snapshot", "") // it was not saved again
}

// TestWritesOfManyKeysAndSettingsAreMadeOnce.
func TestWritesOfManyKeysAndSettingsAreMadeOnce(t *testing.T) {
	c := serve(t, nil)
	const table = "/v1/kv/app/t"
	first := c.do(200, "POST", table, `[{"key":"a","text":"1"},{"key":"b","text":"2"}]`, "Idempotency-Key", "k")
	c.do(200, "PUT", table+"/a", "other")
	again := c.do(200, "POST", table, `[{"key":"a","text":"1"},{"key":"b","text":"2"}]`, "Idempotency-Key", "k")
	equal(t, "duplicate", again.at("duplicate"), "true")
	equal(t, "revisions", again.at("revisions"), first.at("revisions"))
	equal(t, "value", c.get(table+"/a").body, "other")
	c.do(422, "POST", table, `[{"key":"a","text":"1"}]`, "Idempotency-Key", "k")

	c.do(204, "PUT", orders+"/settings", `{"maxCount":5}`, "Idempotency-Key", "k")
	c.do(204, "PUT", orders+"/settings", `{"maxCount":6}`)
	equal(t, "duplicate", c.do(204, "PUT", orders+"/settings", `{"maxCount":5}`, "Idempotency-Key", "k").header.Get("Mainstem-Duplicate"), "true")
	c.get(orders + "/settings").is(`{"maxCount":6}`)
	c.do(422, "PUT", orders+"/settings", `{"maxCount":7}`, "Idempotency-Key", "k")
}

// TestWritesWithoutKeysRefuseThem, and say why; no other operation does.
func TestWritesWithoutKeysRefuseThem(t *testing.T) {
	c := serve(t, nil)
	d, _ := describe(t, c)
	param := regexp.MustCompile(`\{\w+\}`)
	refused := 0
	d.operations(t, func(path, method string, o describedOperation) {
		takes := method == http.MethodGet
		for _, p := range o.Parameters {
			takes = takes || p.Name == "Idempotency-Key"
		}
		if takes {
			return
		}
		refused++
		p := c.do(400, method, param.ReplaceAllString(path, "x"), "", "Idempotency-Key", "k")
		if detail := p.at("detail"); !strings.Contains(detail, o.ID+" takes no Idempotency-Key: ") || strings.HasSuffix(detail, `: "`) {
			t.Errorf("%s %s: %s", method, path, detail)
		}
	})
	equal(t, "writes without a key", refused, 15)
	c.get("/v1/kv", "Idempotency-Key", "k") // a read ignores it
}
