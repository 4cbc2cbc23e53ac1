package viewhttp_test

import (
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/topic"
)

const payments = "/v1/topics/payments"

// offsets returns the texts of the records of a page.
func texts(t testing.TB, a answer) string {
	t.Helper()
	var page struct {
		Records []struct{ Text, Key, Base64 string }
	}
	a.into(&page)
	var out []string
	for _, r := range page.Records {
		out = append(out, r.Key+"="+r.Text+r.Base64)
	}
	return strings.Join(out, " ")
}

func TestTopicsAreCreatedDescribedAndDeleted(t *testing.T) {
	c := serve(t, nil)
	c.get("/v1/topics").is(`{"topics":[]}`)
	c.do(404, "GET", payments, "")
	c.do(404, "POST", payments, `[{"text":"x"}]`)
	a := c.do(200, "PUT", payments, `{"partitions":3,"config":{"cleanup.policy":"compact"}}`)
	equal(t, "config", a.at("config"), `{"cleanup.policy":"compact"}`)
	c.do(200, "PUT", payments, `{"partitions":3}`)
	p := c.do(409, "PUT", payments, `{"partitions":4}`)
	equal(t, "kind", p.at("kind"), `"exists"`)
	c.do(400, "PUT", payments, `{"config":{"what":"x"}}`)
	c.do(400, "PUT", "/v1/topics/a b", `{}`)
	c.get("/v1/topics").is(`{"topics":["payments"]}`)
	equal(t, "partitions", strings.Count(c.get(payments+"/partitions").body, `"end":"0"`), 3)
	c.do(204, "DELETE", payments, "")
	c.do(404, "DELETE", payments, "")
	c.do(404, "GET", payments+"/partitions", "")
}

func TestRecordsArePublishedAndRead(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", payments, `{"partitions":2}`)
	a := c.do(201, "POST", payments, `[{"partition":1,"key":"a","text":"1","headers":[{"name":"h","text":"v"},{"name":"n"}],"time":"2026-01-02T03:04:05Z"},{"partition":1,"key":"b","base64":"/w=="},{"partition":0,"key":"c","json":{"n":1}},{"partition":1,"key":"a"}]`)
	equal(t, "batches", a.at("batches"), `[{"base":"0","next":"1","partition":0},{"base":"0","next":"3","partition":1}]`)
	equal(t, "partition 0", texts(t, c.get(payments)), `c={"n":1}`)
	equal(t, "partition 1", texts(t, c.get(payments+"?partition=1")), "a=1 b=/w== a=")
	var page struct {
		Records []struct {
			Offset    string
			Partition int
			Time      string
			Headers   []struct {
				Name string
				Text *string
			}
			JSON *map[string]int
		}
		Next, End string
	}
	c.get(payments + "?partition=1&limit=1").into(&page)
	if r := page.Records[0]; r.Offset != "0" || r.Partition != 1 || r.Time != "2026-01-02T03:04:05Z" || len(r.Headers) != 2 || *r.Headers[0].Text != "v" || r.Headers[1].Text != nil || page.Next != "1" || page.End != "3" {
		t.Errorf("%+v", page)
	}
	equal(t, "from", texts(t, c.get(payments+"?partition=1&offset=1")), "b=/w== a=")
	c.get(payments + "?as=json").into(&page)
	if r := page.Records[0]; r.JSON == nil || (*r.JSON)["n"] != 1 {
		t.Errorf("%+v", r)
	}
	equal(t, "the end", texts(t, c.get(payments+"?partition=1&offset=3")), "")
	c.do(404, "GET", payments+"?partition=2", "")
	c.do(400, "GET", payments+"?partition=0&partition=1", "")
	c.do(400, "GET", payments+"?offset=9", "")
	if p := c.do(400, "GET", payments+"?max=9", ""); !strings.Contains(p.body, "takes partition, offset, limit") {
		t.Errorf("%s does not say that the word is limit", p.body)
	}
	c.do(400, "POST", payments, `[]`)
	c.do(404, "POST", payments, `[{"partition":2,"text":"x"}]`)
	c.do(400, "POST", payments, `[{"key":"a","key64":"YQ==","text":"x"}]`)

	// The key chooses the partition as in Kafka's own clients.
	b := c.do(201, "POST", payments, `[{"key":"k","text":"x"}]`)
	if want := topic.KeyPartition([]byte("k"), 2); !strings.Contains(b.body, `"partition":`+string('0'+rune(want))) {
		t.Errorf("%s, want partition %d", b.body, want)
	}
}

func TestPublishingOnce(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", payments, `{"partitions":8}`)
	body := `[{"text":"1"},{"text":"2"}]` // without keys: a partition by random
	first := c.do(201, "POST", payments, body, "Idempotency-Key", "k")
	for range 8 {
		again := c.do(201, "POST", payments, body, "Idempotency-Key", "k")
		equal(t, "batches", again.at("batches"), first.at("batches"))
		equal(t, "duplicate", again.at("duplicate"), "true")
	}
	c.do(422, "POST", payments, `[{"text":"3"}]`, "Idempotency-Key", "k")
	equal(t, "records", strings.Count(c.get(payments+"/partitions").body, `"end":"2"`), 1)
}

func TestFollowersOfATopic(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", payments, `{"partitions":2}`)
	c.do(201, "POST", payments, `[{"partition":0,"text":"a"},{"partition":0,"text":"b"}]`)
	f := c.follow(payments)
	equal(t, "id", f.want("record").id, "0:1,1:0")
	equal(t, "id", f.want("record").id, "0:2,1:0")
	c.do(201, "POST", payments, `[{"partition":1,"text":"c"}]`)
	e := f.want("record")
	equal(t, "id", e.id, "0:2,1:1")
	equal(t, "text", f.field(e, "text"), `"c"`)
	f.stop()
	f = c.follow(payments, "Last-Event-ID", "0:1,1:1")
	equal(t, "resumed", f.field(f.want("record"), "text"), `"b"`)
	f.stop()
	f = c.follow(payments + "?partition=1&offset=0")
	equal(t, "one partition", f.want("record").id, "1:1")
	f.stop()
	f = c.follow(payments + "?fromEnd")
	c.do(201, "POST", payments, `[{"partition":1,"text":"d"}]`)
	equal(t, "from the end", f.want("record").id, "0:2,1:2")
	f.stop()

	orders, err := topic.Open(c.log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer orders.Close()
	here, err := orders.Topic(t.Context(), "payments")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.DeleteRecords(t.Context(), 0, 2); err != nil { // the whole record batch
		t.Fatal(err)
	}
	c.do(201, "POST", payments, `[{"partition":0,"text":"e"}]`)
	sse := []string{"Accept", "text/event-stream"}
	c.do(410, "GET", payments+"?partition=0&offset=0", "")
	equal(t, "what is left", texts(t, c.get(payments)), "=e")
	c.do(410, "GET", payments, "", append(sse, "Last-Event-ID", "0:1,1:1")...)
	c.do(410, "GET", payments+"?partition=0&offset=0", "", sse...)
	c.do(400, "GET", payments, "", append(sse, "Last-Event-ID", "x")...)
	c.do(410, "GET", payments, "", append(sse, "Last-Event-ID", "7:1")...)
	c.do(410, "GET", payments, "", append(sse, "Last-Event-ID", "0:3,1:3")...) // it was deleted and made anew
	c.do(410, "GET", payments+"?partition=1&offset=3", "", sse...)
	c.do(400, "GET", payments+"?offset=1", "", sse...)
	c.do(400, "GET", payments+"?limit=1", "", sse...)
}

func TestOffsetsOfAGroup(t *testing.T) {
	c := serve(t, nil)
	c.do(404, "GET", payments+"/groups/g", "")
	c.do(200, "PUT", payments, `{"partitions":2}`)
	c.get(payments + "/groups/g").is(`{"offsets":[]}`)
	c.do(204, "PUT", payments+"/groups/g", `[{"partition":1,"offset":"5"},{"partition":0,"offset":2}]`)
	c.get(payments + "/groups/g").is(`{"offsets":[{"partition":0,"offset":"2"},{"partition":1,"offset":"5"}]}`)
	c.do(400, "PUT", payments+"/groups/g", `[{"partition":0,"offset":-1}]`)
}
