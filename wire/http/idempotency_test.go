package viewhttp_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/testengines"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
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

// TestWritesThatCannotBeMadeAnyMore were made all the same: sent again they are answered as the first
// time. Under another key they fail.
func TestWritesThatCannotBeMadeAnyMore(t *testing.T) {
	const counter, topic = "/v1/kv/app/t/n", "/v1/topics/mail"
	alerts := true
	log := testengines.Memory(t)
	tables, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tables.Close() })
	c, _ := handle(t, log, &viewhttp.Options{Alerts: func() viewhttp.Alerts {
		if !alerts {
			return nil
		}
		return tables
	}})
	for name, x := range map[string]struct {
		before             func()
		method, path, body string
		other              string // another body
		after              func()
		fails              int // status
	}{
		"a counter that is full": {
			func() { c.do(200, "PUT", counter, "9223372036854775800") },
			"POST", counter + "?op=increment", `{"by":7}`, `{"by":8}`, func() {}, 400,
		},
		"a counter that is a text": {
			func() { c.do(200, "PUT", counter, "1") },
			"POST", counter + "?op=increment", `{"by":7}`, `{"by":8}`, func() { c.do(200, "PUT", counter, "text") }, 409,
		},
		"a counter in a commit": {
			func() { c.do(200, "PUT", counter, "1") },
			"POST", "/v1/commit", `{"do":[{"kv.increment":{"table":"app/t","key":"n","by":7}}]}`, `{"do":[{"kv.increment":{"table":"app/t","key":"n","by":8}}]}`,
			func() { c.do(200, "PUT", counter, "text") }, 400,
		},
		"records of a topic that is gone": {
			func() { c.do(200, "PUT", topic, `{}`) },
			"POST", topic, `[{"text":"x"}]`, `[{"text":"y"}]`, func() { c.do(204, "DELETE", topic, "") }, 404,
		},
		"records of a partition that is gone": {
			func() { c.do(200, "PUT", topic, `{"partitions":3}`) },
			"POST", topic, `[{"text":"x","partition":2}]`, `[{"text":"y"}]`, func() { c.do(204, "DELETE", topic, ""); c.do(200, "PUT", topic, `{}`) }, 404,
		},
		"records in a commit": {
			func() { c.do(200, "PUT", topic, `{}`) },
			"POST", "/v1/commit", `{"do":[{"topic.publish":{"topic":"mail","records":[{"text":"x"}]}}]}`, `{"do":[{"topic.publish":{"topic":"mail","records":[]}}]}`,
			func() { c.do(204, "DELETE", topic, "") }, 404,
		},
		"offsets of a topic that is gone": {
			func() { c.do(200, "PUT", topic, `{}`) },
			"PUT", topic + "/groups/g", `[{"partition":0,"offset":"0"}]`, `[]`, func() { c.do(204, "DELETE", topic, "") }, 404,
		},
		"an alert where there are no tables": {
			func() {},
			"POST", "/v1/commit", `{"do":[{"alert.insert":{"table":"alerts.status","values":{"Identifier":"x"}}}]}`, `{"do":[{"alert.insert":{"table":"alerts.status","values":{}}}]}`,
			func() { alerts = false }, 501,
		},
		"a stream that is not archived any more": {
			func() { placed(c, "order-1", 1); c.do(204, "POST", orders+"?op=archive", "") },
			"POST", orders + "?op=unarchive", "", "", func() {}, 404,
		},
	} {
		x.before()
		ok := map[string]int{"PUT": 204, "POST": 201}[x.method]
		switch {
		case strings.HasSuffix(x.path, "increment"):
			ok = 200
		case x.body == "":
			ok = 204
		}
		key := []string{"Idempotency-Key", name}
		first := c.do(ok, x.method, x.path, x.body, key...)
		x.after()
		again := c.do(ok, x.method, x.path, x.body, key...)
		equal(t, name+": duplicate", again.header.Get("Mainstem-Duplicate"), "true")
		equal(t, name+": position", again.header.Get("Mainstem-Position"), first.header.Get("Mainstem-Position"))
		equal(t, name+": answer", again.body, strings.Replace(first.body, `"duplicate":false`, `"duplicate":true`, 1))
		if x.body != x.other {
			c.do(422, x.method, x.path, x.other, key...)
		}
		c.do(x.fails, x.method, x.path, x.body, "Idempotency-Key", name+", for the first time")
		c.do(x.fails, x.method, x.path, x.body, "Idempotency-Key", name+", for the first time")
		alerts = true
		resp := c.request(t.Context(), "DELETE", topic, "")
		resp.Body.Close()
	}
}
