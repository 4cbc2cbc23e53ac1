package viewhttp_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func TestKeyIsWrittenReadAndDeleted(t *testing.T) {
	c := serve(t, nil)
	put := c.do(200, "PUT", "/v1/kv/app/users/42", `{"name":"Ada"}`, "Mainstem-Meta-Trace-Id", "t1", "Mainstem-TTL", "30m")
	equal(t, "revision", put.at("revision"), "1")
	equal(t, "ETag of PUT", put.header.Get("ETag"), `"1"`)
	equal(t, "Cache-Control of PUT", put.header.Get("Cache-Control"), "no-cache, no-transform")
	a := c.get("/v1/kv/app/users/42")
	equal(t, "body", a.body, `{"name":"Ada"}`)
	equal(t, "ETag", a.header.Get("ETag"), `"1"`)
	equal(t, "Cache-Control", a.header.Get("Cache-Control"), "no-cache, no-transform")
	equal(t, "Content-Type", a.header.Get("Content-Type"), "application/octet-stream")
	equal(t, "revision", a.header.Get("Mainstem-Revision"), "1")
	equal(t, "position", strconv.Quote(a.header.Get("Mainstem-Position")), put.at("position"))
	equal(t, "metadata", a.header.Get("Mainstem-Meta-Trace-Id"), "t1")
	if a.header.Get("Mainstem-Expires") == "" {
		t.Error("nothing says when the value expires")
	}
	equal(t, "HEAD has no body", c.do(200, "HEAD", "/v1/kv/app/users/42", "").body, "")
	same := c.do(304, "GET", "/v1/kv/app/users/42", "", "If-None-Match", `W/"1"`)
	equal(t, "ETag of 304", same.header.Get("ETag"), `"1"`)
	equal(t, "Cache-Control of 304", same.header.Get("Cache-Control"), "no-cache, no-transform")
	c.do(200, "GET", "/v1/kv/app/users/42", "", "If-None-Match", `"2", "7"`)

	equal(t, "deleted", c.do(200, "DELETE", "/v1/kv/app/users/42", "").at("revision"), "2")
	missing := c.do(404, "GET", "/v1/kv/app/users/42", "")
	equal(t, "revision of the deletion", missing.header.Get("Mainstem-Revision"), "2")
	equal(t, "kind", missing.at("kind"), `"not_found"`)
	equal(t, "deleted again", c.do(200, "DELETE", "/v1/kv/app/users/42", "").at("revision"), "0")
	equal(t, "never written", c.do(404, "GET", "/v1/kv/app/users/43", "").header.Get("Mainstem-Revision"), "")
	equal(t, "of no table", c.do(200, "DELETE", "/v1/kv/app/none/43", "").at("revision"), "0")
	if _, err := c.log.Space(t.Context(), "kv/app/none"); err == nil {
		t.Error("a deletion created a table")
	}
}

func TestConditionsOfAKey(t *testing.T) {
	c := serve(t, nil)
	const path = "/v1/kv/app/users/1"
	c.do(412, "PUT", path, "a", "If-Match", `"1"`)
	c.do(412, "PUT", path, "a", "If-Match", "*")
	c.do(200, "PUT", path, "a", "If-None-Match", "*")
	p := c.do(412, "PUT", path, "b", "If-None-Match", "*")
	equal(t, "outcome", p.at("outcome"), `"not_written"`)
	equal(t, "want", p.at("want", "test"), `"absent"`)
	equal(t, "got", p.at("got", "version"), "1")
	c.do(200, "PUT", path, "b", "If-Match", `W/"1"`)
	equal(t, "got", c.do(412, "PUT", path, "c", "If-Match", `"1"`).at("got", "version"), "2")
	c.do(412, "DELETE", path, "", "If-Match", `"1"`)
	c.do(200, "DELETE", path, "", "If-Match", `"2"`)
	for _, bad := range []string{"1", `"x"`, `"1", "2"`, `W/1`} {
		c.do(400, "PUT", path, "", "If-Match", bad)
	}
	c.do(400, "PUT", path, "", "If-None-Match", `"1"`)
	c.do(400, "PUT", path, "", "Mainstem-TTL", "soon")
	c.do(400, "PUT", path, "", "Mainstem-TTL", "-1s")
}

func TestKeysOfAnyBytes(t *testing.T) {
	c := serve(t, nil)
	for _, key := range []string{"a/b", "..", ".", "a b", "ü", "a%2Fb", "a//b", "by-key", "\xff\x00", "?x=1#y", "a/../b", "+"} {
		byText, by64 := "/v1/kv/app/t/by-key?key="+url.QueryEscape(key), "/v1/kv/app/t/by-key?key64="+url.QueryEscape(base64Of(key))
		c.do(200, "PUT", by64, "of "+key)
		equal(t, key, c.get(byText).body, "of "+key)
		equal(t, key, c.get(by64).body, "of "+key)
		if key != "by-key" && key != "." && key != ".." {
			equal(t, key, c.get("/v1/kv/app/t/"+url.PathEscape(key)).body, "of "+key)
		}
		rec, err := c.log.Get(t.Context(), "kv/app/t", []byte(key))
		if err != nil || string(rec.Value) != "of "+key {
			t.Errorf("%q: %q, %v", key, rec.Value, err)
		}
	}
	c.do(200, "PUT", "/v1/kv/app/t/"+"%2E%2E", "dots") // nothing cleans the path
	equal(t, "dots", c.get("/v1/kv/app/t/by-key?key=..").body, "dots")
	c.do(400, "GET", "/v1/kv/app/t/by-key", "")
	c.do(400, "GET", "/v1/kv/app/t/by-key?key=a&key64=YQ", "")
	c.do(400, "GET", "/v1/kv/app/t/by-key?key64=!", "")
	c.do(404, "GET", "/v1/kv/app/t/", "")
	c.do(404, "GET", "/v1/kv/app//t/k", "") // and nothing is redirected
}

func TestValuesOfAnyBytes(t *testing.T) {
	c := serve(t, nil)
	for i, v := range []string{"", "\x00\xff\r\n", strings.Repeat("x", 300<<10)} {
		path := "/v1/kv/app/t/" + strconv.Itoa(i)
		c.do(200, "PUT", path, v)
		equal(t, path, c.get(path).body, v)
	}
}

func TestRevisionsOfAKey(t *testing.T) {
	c := serve(t, nil)
	users, err := kv.Open[string](c.log, "app/users", &kv.Options{History: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Put(t.Context(), "1", "a"); err != nil {
		t.Fatal(err)
	}
	c.do(200, "PUT", "/v1/kv/app/users/1", "b")
	c.do(200, "DELETE", "/v1/kv/app/users/1", "")
	equal(t, "revision 1", c.get("/v1/kv/app/users/1?revision=1").body, "a")
	equal(t, "revision 2", c.get("/v1/kv/app/users/1?revision=2").body, "b")
	equal(t, "revision 3", c.do(404, "GET", "/v1/kv/app/users/1?revision=3", "").header.Get("Mainstem-Revision"), "3")
	c.do(404, "GET", "/v1/kv/app/users/1?revision=4", "")
	c.do(400, "GET", "/v1/kv/app/users/1?revision=x", "")
	equal(t, "purged before", c.do(200, "DELETE", "/v1/kv/app/users/1?purge", "").at("revision"), "0")
	c.do(404, "GET", "/v1/kv/app/users/1?revision=1", "")
}

func TestCounters(t *testing.T) {
	c := serve(t, nil)
	const path = "/v1/kv/app/counts/visits?op=increment"
	const writers, each = 4, 10
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				c.do(200, "POST", path, `{"by":1}`)
			}
		})
	}
	all.Wait()
	equal(t, "sum", c.do(200, "POST", path, `{"by":"9007199254740993"}`).at("value"), `"9007199254741033"`)
	equal(t, "stored", c.get("/v1/kv/app/counts/visits").body, "9007199254741033")
	c.do(400, "POST", path, `{"by":"9223372036854775807"}`)
	c.do(400, "POST", path, `{"by":1.5}`)
	c.do(400, "POST", path, `{}`)
	c.do(400, "POST", "/v1/kv/app/counts/visits", `{"by":1}`)
	c.do(200, "PUT", "/v1/kv/app/counts/text", "abc")
	c.do(409, "POST", "/v1/kv/app/counts/text?op=increment", `{"by":1}`)
}

func TestListsOfATable(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "POST", "/v1/kv/app/t", `[{"key":"a1","text":"x","metadata":{"m":"1"}},{"key":"a2","json":{"n": 1}},{"key":"b1","base64":"/w=="},{"key64":"/w==","text":""}]`)
	list := func(query string) string { return keysOf(t, c.get("/v1/kv/app/t"+query)) }
	for query, want := range map[string]string{
		"": "a1 a2 b1 \xff", "?prefix=a": "a1 a2", "?suffix=1": "a1 b1", "?start=a2&end=c": "a2 b1", "?after=a1": "a2 b1 \xff",
		"?reverse&limit=2": "\xff b1 …b1", "?limit=1": "a1 …a1", "?after=a1&limit=2": "a2 b1 …b1", "?prefix64=/w": "\xff", "?reverse&limit=1": "\xff …\xff",
	} {
		equal(t, query, list(query), want)
	}
	var page struct {
		Entries []struct {
			Key, Text, Base64, Position string
			JSON                        any
			Revision                    int
			Metadata                    map[string]string
		}
	}
	c.get("/v1/kv/app/t?as=json").into(&page)
	if e := page.Entries; e[0].Text != "x" || e[0].Metadata["m"] != "1" || e[0].Position == "" || e[0].Revision != 1 || e[1].JSON.(map[string]any)["n"] != 1.0 || e[2].Base64 != "/w==" {
		t.Errorf("%+v", e)
	}
	if a := c.get("/v1/kv/app/t?keys"); strings.Contains(a.body, "text") {
		t.Errorf("keys have values: %s", a.body)
	}
	lines := c.get("/v1/kv/app/t?prefix=a", "Accept", "application/x-ndjson")
	equal(t, "type", lines.header.Get("Content-Type"), "application/x-ndjson")
	equal(t, "lines", strings.Count(lines.body, "\n"), 2)
	equal(t, "no table", keysOf(t, c.get("/v1/kv/app/none")), "")
	for _, bad := range []string{"?limt=1", "?limit=x", "?limit=10001", "?limit=1&limit=2", "?as=xml", "?reverse=maybe", "?after=a&after64=YQ", "?updates"} {
		c.do(400, "GET", "/v1/kv/app/t"+bad, "")
	}
}

// TestLargePagesEndEarly: a page holds about 1 MiB, and the next one goes on.
func TestLargePagesEndEarly(t *testing.T) {
	c := serve(t, nil)
	const n = 9
	for i := range n {
		c.do(200, "PUT", "/v1/kv/app/t/"+strconv.Itoa(i), strings.Repeat("x", 300<<10))
	}
	var seen, pages int
	for after := ""; ; pages++ {
		var page struct {
			Entries []struct{ Key string }
			Next    string
		}
		c.get("/v1/kv/app/t?after=" + after).into(&page)
		seen += len(page.Entries)
		if after = page.Next; after == "" {
			break
		}
	}
	if seen != n || pages < 2 {
		t.Errorf("%d entries in %d pages", seen, pages+1)
	}
	equal(t, "all lines", strings.Count(c.get("/v1/kv/app/t", "Accept", "application/x-ndjson").body, "\n"), n)
}

func TestManyKeysInOneCommit(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", "/v1/kv/app/t/a", "1")
	p := c.do(409, "POST", "/v1/kv/app/t", `[{"key":"b","text":"x"},{"key":"a","text":"y","ifRevision":2}]`)
	equal(t, "got", p.at("got", "version"), "1")
	c.do(404, "GET", "/v1/kv/app/t/b", "")
	equal(t, "revisions", c.do(200, "POST", "/v1/kv/app/t", `[{"key":"b","text":"x","ifAbsent":true},{"key":"a","text":"y","ifRevision":1}]`).at("revisions"), "[1,2]")
	for _, bad := range []string{"", "{}", "[]", "[{}]", `[{"key":"a"}]`, `[{"key":"a","text":"","json":1}]`, `[{"key":"a","text":"x"}] x`, `[{"key":"a","txt":"x"}]`, `[{"key":"a","text":"x"}`, `[{"key":"a","text":"x","ttl":"x"}]`, `[{"key":"a","text":"x","ifAbsent":true,"ifExists":true}]`} {
		c.do(400, "POST", "/v1/kv/app/t", bad)
	}
}

func TestTablesAndDatabases(t *testing.T) {
	c := serve(t, nil)
	c.get("/v1/kv").is(`{"databases":[]}`)
	c.do(200, "PUT", "/v1/kv/app/a/1", "x")
	c.do(200, "PUT", "/v1/kv/app/b/1", "x")
	c.do(200, "PUT", "/v1/kv/app2/a/1", "x")
	c.get("/v1/kv").is(`{"databases":["app","app2"]}`)
	a := c.get("/v1/kv/app")
	if !strings.Contains(a.body, `"name":"a"`) || !strings.Contains(a.body, `"name":"b"`) {
		t.Error(a.body)
	}
	c.do(204, "DELETE", "/v1/kv/app/a", "")
	c.do(404, "DELETE", "/v1/kv/app/a", "")
	c.do(204, "DELETE", "/v1/kv/app", "")
	c.do(404, "DELETE", "/v1/kv/app", "")
	c.do(404, "GET", "/v1/kv/app", "")
	c.get("/v1/kv").is(`{"databases":["app2"]}`)
	c.do(400, "GET", "/v1/kv/a b", "")
	c.do(400, "GET", "/v1/kv/app/%24t", "")
}

func TestWatch(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", "/v1/kv/app/t/a", "1")
	w := c.follow("/v1/kv/app/t")
	equal(t, "buffering", w.resp.Header.Get("X-Accel-Buffering"), "no")
	first := w.want("put")
	equal(t, "a value before the marker has no id", first.id, "")
	equal(t, "value", w.field(first, "text"), `"1"`)
	synced := w.want("synced")
	c.do(200, "PUT", "/v1/kv/app/t/b", "2")
	b := w.want("put")
	equal(t, "id", strconv.Quote(b.id), w.field(b, "position"))
	c.do(200, "DELETE", "/v1/kv/app/t/a", "")
	gone := w.want("delete")
	equal(t, "key", w.field(gone, "key"), `"a"`)
	w.stop()

	// It goes on where it left: also from the marker.
	c.do(200, "PUT", "/v1/kv/app/t/c", "3")
	again := c.follow("/v1/kv/app/t", "Last-Event-ID", b.id)
	equal(t, "resumed", again.want("delete").id, gone.id)
	equal(t, "resumed", again.field(again.want("put"), "key"), `"c"`)
	again.want("synced")
	again.stop()
	again = c.follow("/v1/kv/app/t", "Last-Event-ID", synced.id)
	equal(t, "from the marker", again.want("put").id, b.id)
	again.stop()

	only := c.follow("/v1/kv/app/t?prefix=x&updates")
	only.want("synced")
	c.do(200, "PUT", "/v1/kv/app/t/y", "")
	c.do(200, "PUT", "/v1/kv/app/t/x", "")
	equal(t, "prefix", only.field(only.want("put"), "key"), `"x"`)
}

func TestWatchThatCannotGoOn(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", "/v1/kv/app/t/a", "1")
	events := []string{"Accept", "text/event-stream", "Last-Event-ID"}
	c.do(410, "GET", "/v1/kv/app/t", "", append(events, "1000000")...)
	c.do(400, "GET", "/v1/kv/app/t", "", append(events, "x")...)
	c.do(400, "GET", "/v1/kv/app/t?limit=1", "", "Accept", "text/event-stream")
	at := c.get("/v1/kv/app/t/a").header.Get("Mainstem-Position")
	c.do(200, "PUT", "/v1/kv/app/other/a", "keeps the time of the first record")
	c.do(204, "DELETE", "/v1/kv/app/t", "")
	c.do(200, "PUT", "/v1/kv/app/t/b", "2")
	p := c.do(410, "GET", "/v1/kv/app/t", "", append(events, at)...)
	equal(t, "kind", p.at("kind"), `"not_found"`)
	if err := c.log.CreateSpace(t.Context(), "kv/app/quiet", mainstem.Policy{History: 1, NoFeed: true}); err != nil {
		t.Fatal(err)
	}
	c.do(http.StatusNotImplemented, "GET", "/v1/kv/app/quiet", "", "Accept", "text/event-stream")
}

// twoRevisions writes "a" and "b" to the key 1 of a table that keeps history.
func twoRevisions(t *testing.T, c client) {
	t.Helper()
	users, err := kv.Open[string](c.log, "app/users", &kv.Options{History: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"a", "b"} {
		if _, err := users.Put(t.Context(), "1", v); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeletionsThatAreSentTwice: the second time nothing is deleted, whatever was written since.
func TestDeletionsThatAreSentTwice(t *testing.T) {
	c := serve(t, nil)
	twoRevisions(t, c)
	const path = "/v1/kv/app/users/1"
	c.do(200, "DELETE", path, "")
	a := c.do(200, "DELETE", path+"?purge", "", "Idempotency-Key", "k1")
	equal(t, "purge of a deleted key", a.at("revision"), "0")
	c.do(404, "GET", path+"?revision=1", "")
	c.do(404, "GET", path+"?revision=2", "")
	c.do(200, "PUT", path, "new")
	a = c.do(200, "DELETE", path+"?purge", "", "Idempotency-Key", "k1")
	equal(t, "duplicate", a.at("duplicate"), "true")
	equal(t, "value", c.get(path).body, "new")

	equal(t, "purged", c.do(200, "DELETE", path+"?purge", "", "Idempotency-Key", "k2").at("revision"), "5")
	c.do(200, "PUT", path, "newer")
	equal(t, "the same answer", c.do(200, "DELETE", path+"?purge", "", "Idempotency-Key", "k2").at("revision"), "5")
	equal(t, "value", c.get(path).body, "newer")
	c.do(422, "DELETE", path, "", "Idempotency-Key", "k2")

	// In a table that is not there, too.
	for i, query := range []string{"", "?purge"} {
		key, path := "none"+query, "/v1/kv/app/none"+strconv.Itoa(i)+"/1"
		equal(t, "of no table", c.do(200, "DELETE", path+query, "", "Idempotency-Key", key).at("revision"), "0")
		if _, err := c.log.Space(t.Context(), "kv/app/none"+strconv.Itoa(i)); err == nil {
			t.Error("a deletion created a table")
		}
		c.do(200, "PUT", path, "new")
		a := c.do(200, "DELETE", path+query, "", "Idempotency-Key", key)
		equal(t, "duplicate", a.header.Get("Mainstem-Duplicate"), "true")
		equal(t, "revision", a.at("revision"), "0")
		equal(t, "value", c.get(path).body, "new")
	}
}

func TestConditionsOfADeletion(t *testing.T) {
	c := serve(t, nil)
	const path = "/v1/kv/app/users/1"
	for _, query := range []string{"", "?purge"} {
		c.do(412, "DELETE", path+query, "", "If-Match", "*")
		equal(t, "no value", c.do(200, "DELETE", path+query, "", "If-None-Match", "*").at("revision"), "0")
		c.do(200, "PUT", path, "a")
		c.do(412, "DELETE", path+query, "", "If-None-Match", "*")
		c.do(412, "DELETE", path+query, "", "If-Match", `"77"`)
		equal(t, "value", c.get(path).body, "a")
		c.do(200, "DELETE", path+query, "", "If-Match", "*")
		c.do(412, "DELETE", path+query, "", "If-Match", "*")
		equal(t, "no value", c.do(200, "DELETE", path+query, "", "If-None-Match", "*").at("revision"), "0")
		c.do(400, "DELETE", path+query, "", "If-None-Match", `"1"`)
	}
}

// TestWatchWithHistory begins with all revisions that the table keeps.
func TestWatchWithHistory(t *testing.T) {
	c := serve(t, nil)
	twoRevisions(t, c)
	f := c.follow("/v1/kv/app/users?history")
	equal(t, "the first revision", f.field(f.want("put"), "text"), `"a"`)
	equal(t, "the second revision", f.field(f.want("put"), "text"), `"b"`)
	f.want("synced")
	f.stop()
	f = c.follow("/v1/kv/app/users")
	equal(t, "without history", f.field(f.want("put"), "text"), `"b"`)
	f.want("synced")
}
