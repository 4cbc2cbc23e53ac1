package viewhttp_test

import (
	"context"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

const placeOrder = `{
	"if": [{"kv":{"table":"app/stock","key":"book","revision":1}},{"event":{"store":"shop","stream":"order-1","expected":"none"}}],
	"do": [
		{"kv.increment":{"table":"app/stock","key":"book","by":-1}},
		{"event.append":{"store":"shop","stream":"order-1","expected":"none","events":[{"type":"Placed","data":{"n":1}},{"type":"Paid"}]}},
		{"topic.publish":{"topic":"mail","records":[{"key":"1","json":{"to":"ada"}}]}},
		{"kv.put":{"table":"app/orders","key":"1","json":{"state":"placed"},"ifAbsent":true}},
		{"topic.offset":{"topic":"mail","group":"g","partition":0,"offset":"1"}}
	]}`

func TestOneCommitOverAllViews(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", "/v1/topics/mail", `{}`)
	c.do(200, "PUT", "/v1/kv/app/stock/book", "5")
	a := c.do(201, "POST", "/v1/commit", placeOrder, "Idempotency-Key", "order-1")
	var got struct {
		First, Last string
		Duplicate   bool
		Results     []struct {
			Revision                    int
			Value, Position             string
			First, Last                 int
			FirstPosition, LastPosition string
			Batches                     []struct {
				Partition  int
				Base, Next string
			}
		}
	}
	a.into(&got)
	r := got.Results
	if len(r) != 5 || r[0].Value != "4" || r[0].Revision != 2 || r[0].Position != got.First || r[1].First != 1 || r[1].Last != 2 || r[1].FirstPosition == "" || len(r[2].Batches) != 1 || r[2].Batches[0].Next != "1" || r[3].Revision != 1 {
		t.Errorf("%+v", got)
	}
	equal(t, "stock", c.get("/v1/kv/app/stock/book").body, "4")
	equal(t, "events", versions(t, c.get("/v1/events/shop/streams/order-1")), "1 2")
	equal(t, "message", texts(t, c.get("/v1/topics/mail")), `1={"to":"ada"}`)
	equal(t, "order", c.get("/v1/kv/app/orders/1").body, `{"state":"placed"}`)
	c.get("/v1/topics/mail/groups/g").is(`{"offsets":[{"partition":0,"offset":"1"}]}`)
	feed := c.get("/v1/events/shop/feed").at("events")
	if feed == "[]" {
		t.Error("the feed has nothing")
	}

	// Sent again it writes nothing, and has the same results.
	again := c.do(201, "POST", "/v1/commit", placeOrder, "Idempotency-Key", "order-1")
	equal(t, "duplicate", again.header.Get("Mainstem-Duplicate"), "true")
	equal(t, "results", again.at("results"), a.at("results"))
	equal(t, "stock", c.get("/v1/kv/app/stock/book").body, "4")

	// Without the key its conditions do not hold, and nothing is written.
	p := c.do(409, "POST", "/v1/commit", placeOrder)
	equal(t, "outcome", p.at("outcome"), `"not_written"`)
	equal(t, "stock", c.get("/v1/kv/app/stock/book").body, "4")
}

func TestCommitThatFailsWritesNothing(t *testing.T) {
	c := serve(t, nil)
	placed(c, "order-1", 2)
	c.do(200, "PUT", "/v1/kv/app/t/a", "1")
	p := c.do(409, "POST", "/v1/commit", `{"do":[{"kv.put":{"table":"app/t","key":"a","text":"2"}},{"event.append":{"store":"shop","stream":"order-1","expected":1,"events":[{"type":"X"}]}}]}`)
	equal(t, "actual", p.at("actual"), "2")
	c.do(204, "POST", "/v1/events/shop/streams/order-1?op=archive", "")
	c.do(423, "POST", "/v1/commit", `{"do":[{"kv.put":{"table":"app/t","key":"a","text":"2"}},{"event.append":{"store":"shop","stream":"order-1","events":[{"type":"X"}]}}]}`)
	c.do(404, "POST", "/v1/commit", `{"do":[{"kv.put":{"table":"app/t","key":"a","text":"2"}},{"topic.publish":{"topic":"none","records":[{"text":"x"}]}}]}`)
	c.do(501, "POST", "/v1/commit", `{"do":[{"kv.put":{"table":"app/t","key":"a","text":"2"}},{"alert.insert":{"table":"alerts.status","values":{}}}]}`)
	equal(t, "untouched", c.get("/v1/kv/app/t/a").body, "1")
	for _, bad := range []string{
		``, `{}`, `{"do":[]}`, `{"do":[{}]}`, `{"do":[{"kv.put":{"table":"app/t","key":"a","text":"x"},"kv.delete":{"table":"app/t","key":"a"}}]}`,
		`{"do":[{"kv.fetch":{}}]}`, `{"do":[{"kv.put":{"table":"app/t","key":"a"}}]}`, `{"do":[{"kv.put":{"table":"$","key":"a","text":"x"}}]}`,
		`{"if":[{}]}`, `{"if":[{"kv":{"table":"app/t","key":"a"}}]}`, `{"if":[{"event":{"store":"shop","stream":"a"}}]}`,
		`{"do":[{"event.append":{"store":"shop","stream":"a"}}]}`, `{"do":[{"kv.increment":{"table":"app/t","key":"a"}}]}`,
		`{"id":"","if":[]}`, `{"do":{}}`, `{"do":[{"topic.publish":{"topic":"none"}}],"x":1}`,
	} {
		c.do(400, "POST", "/v1/commit", bad)
	}
	c.do(400, "POST", "/v1/commit", `{"id":"a","do":[{"kv.put":{"table":"app/t","key":"a","text":"x"}}]}`, "Idempotency-Key", "b")
	c.do(201, "POST", "/v1/commit", `{"if":[{"kv":{"table":"app/t","key":"a","exists":true}}]}`) // a condition alone
	c.do(201, "POST", "/v1/commit", `{"id":"x","do":[{"kv.delete":{"table":"app/t","key":"a","ifRevision":1}}]}`)
	equal(t, "by id", c.do(201, "POST", "/v1/commit", `{"id":"x","do":[{"kv.delete":{"table":"app/t","key":"a","ifRevision":1}}]}`).at("duplicate"), "true")
	c.do(422, "POST", "/v1/commit", `{"id":"x","do":[{"kv.delete":{"table":"app/t","key":"b"}}]}`)
}

// TestCommitsThatReadAreMadeAnew: commits that add to one counter do not fail for each other.
func TestCommitsThatReadAreMadeAnew(t *testing.T) {
	c := serve(t, nil)
	const writers, each = 4, 10
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				c.do(201, "POST", "/v1/commit", `{"do":[{"kv.increment":{"table":"app/t","key":"n","by":1}},{"event.append":{"store":"s","stream":"a-1","events":[{"type":"Added"}]}}]}`)
			}
		})
	}
	all.Wait()
	equal(t, "sum", c.get("/v1/kv/app/t/n").body, "40")
	equal(t, "events", c.get("/v1/events/s/streams/a-1").header.Get("Mainstem-Version"), "40")
}

// withAlerts serves a log with tables of alerts.
func withAlerts(t *testing.T) (client, mainstem.Log, *alert.Server) {
	t.Helper()
	log := testengines.Memory(t)
	tables, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tables.Close() })
	c, _ := handle(t, log, &viewhttp.Options{Alerts: func() viewhttp.Alerts { return tables }})
	return c, log, tables
}

// TestCommitWithAnAlert: a row of an alert table in the commit of a key.
func TestCommitWithAnAlert(t *testing.T) {
	c, log, tables := withAlerts(t)
	body := `{"id":"a","do":[{"kv.put":{"table":"app/t","key":"a","text":"1"}},{"alert.insert":{"table":"alerts.status","values":{"Identifier":"x","Node":"n","Severity":4}}}]}`
	first := c.do(201, "POST", "/v1/commit", body)
	again := c.do(201, "POST", "/v1/commit", body) // a reinsert has other writes
	equal(t, "duplicate", again.at("duplicate"), "true")
	equal(t, "results", again.at("results"), first.at("results"))
	if err := tables.Wait(t.Context(), headOf(t, log)); err != nil {
		t.Fatal(err)
	}
	rows, err := tables.Query(t.Context(), "select Severity, Tally from alerts.status where Node = 'n'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		equal(t, "severity", row.Int("Severity"), 4)
		equal(t, "tally", row.Int("Tally"), 1)
	}
	equal(t, "rows", n, 1)
	for _, bad := range []string{"null", "[]", "{}", "9223372036854775808", "-9223372036854775809", "1e400"} {
		c.do(400, "POST", "/v1/commit", `{"do":[{"alert.insert":{"table":"alerts.status","values":{"Identifier":"y","Summary":`+bad+`}}}]}`)
	}
	c.do(404, "POST", "/v1/commit", `{"do":[{"alert.insert":{"table":"alerts.status","values":{"Nothing":1}}}]}`)
}

// TestNumbersOfAnAlertKeepTheirDigits: whole numbers above 2^53 are not rounded.
func TestNumbersOfAnAlertKeepTheirDigits(t *testing.T) {
	c, log, tables := withAlerts(t)
	for number, want := range map[string]string{
		"9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808",
		"4.0": "4", "1e3": "1000", "true": "1",
	} {
		c.do(201, "POST", "/v1/commit", `{"do":[{"alert.insert":{"table":"alerts.status","values":{"Identifier":"`+number+`","Summary":`+number+`}}}]}`)
		if err := tables.Wait(t.Context(), headOf(t, log)); err != nil {
			t.Fatal(err)
		}
		rows, err := tables.Query(t.Context(), "select Summary from alerts.status where Identifier = '"+number+"'")
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range rows.All() {
			if err != nil {
				t.Fatal(err)
			}
			equal(t, number, row.Text("Summary"), want)
		}
		_ = rows.Close()
	}
}

func headOf(t testing.TB, log mainstem.Log) mainstem.Position {
	t.Helper()
	head, err := log.Head(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return head
}
