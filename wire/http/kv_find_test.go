package viewhttp_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// TestTableAsItWas: keys and lists as they were at a position or a time, as far as that is kept.
func TestTableAsItWas(t *testing.T) {
	c := serve(t, nil)
	b, err := kv.Open[[]byte](c.log, "app/users", &kv.Options{Codec: codec.Raw, History: 2})
	if err != nil {
		t.Fatal(err)
	}
	var entries []kv.Entry[[]byte]
	for _, value := range []string{"one", "two", "three"} {
		if _, err := b.Put(t.Context(), "1", []byte(value)); err != nil {
			t.Fatal(err)
		}
		e, err := b.Get(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	at := func(i int) string { return fmt.Sprint("?at=", uint64(entries[i].Position)) }
	const key, table = "/v1/kv/app/users/1", "/v1/kv/app/users"
	a := c.get(key + at(1))
	equal(t, "value", a.body, "two")
	equal(t, "revision", a.header.Get("Mainstem-Revision"), "2")
	equal(t, "by time", c.get(key+"?at="+url.QueryEscape("2100-01-01T00:00:00Z")).body, "three")
	equal(t, "by-key", c.get("/v1/kv/app/users/by-key?key=1&at="+at(2)[4:]).body, "three")
	if got := c.get(table + at(1) + "&as=text").body; !strings.Contains(got, `"text":"two"`) || strings.Contains(got, "three") {
		t.Error(got)
	}
	if got := c.get(table+at(1), "Accept", "application/x-ndjson").body; strings.Count(got, "\n") != 1 || !strings.Contains(got, "two") {
		t.Error(got)
	}
	c.do(410, "GET", key+at(0), "") // its history is 2
	c.do(410, "GET", table+at(0), "")
	c.do(404, "GET", "/v1/kv/app/users/2"+at(1), "")
	for _, bad := range []string{"?at=0", "?at=yesterday", "?at=-1", "?at=", at(1) + "&revision=1"} {
		c.do(400, "GET", key+bad, "")
	}
	c.do(400, "GET", table+"?at=x", "")
	c.do(400, "GET", table+at(1), "", "Accept", "text/event-stream")
}

// TestPagesOfAnIndex: entries are found by a value, and pages have each of them once, whatever they weigh.
func TestPagesOfAnIndex(t *testing.T) {
	c := serve(t, nil)
	x, err := kv.OpenIndexed(c.log, "app/members", &kv.Options{Codec: codec.Raw},
		kv.Index[[]byte]{Name: "email", Field: "email", Unique: true}, kv.Index[[]byte]{Name: "city", Field: "city"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 70 {
		key, large := fmt.Sprintf("%03d", i), ""
		if i%35 == 7 {
			large = strings.Repeat("x", 700<<10)
		}
		value, err := json.Marshal(map[string]string{"email": key + "@example.org", "city": []string{"Oslo", "Rome"}[i%2], "large": large})
		if err == nil {
			_, err = x.Put(t.Context(), key, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			want = append(want, key)
		}
	}
	const table = "/v1/kv/app/members?index="
	equal(t, "one", c.get(table+"email&keys&value=042@example.org").at("entries"), c.get("/v1/kv/app/members?keys&prefix=042").at("entries"))
	c.get(table + "email&value=nobody").is(`{"entries":[]}`)
	for _, limit := range []int{1, 20, 1000} {
		for _, reverse := range []bool{false, true} {
			got := c.pages(fmt.Sprintf("%scity&value=Rome&limit=%d&reverse=%v", table, limit, reverse), limit)
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d, reverse %v: %d keys: %v", limit, reverse, len(got), got)
			}
		}
	}
	equal(t, "all", len(c.pages(table+"city&limit=100", 100)), 70)
	c.do(404, "GET", table+"age&value=7", "")
	c.do(404, "GET", "/v1/kv/app/none?index=age&value=7", "")
	c.do(400, "GET", table+"city&prefix=0", "")
	c.do(400, "GET", table+"city&at=1", "")
	c.do(400, "GET", table+"city&after=nonsense", "")
	c.do(400, "GET", table+"city", "", "Accept", "application/x-ndjson")
	c.do(400, "GET", table+"city", "", "Accept", "text/event-stream")
}

// pages reads all pages of a list, and returns its keys.
func (c client) pages(path string, limit int) []string {
	c.t.Helper()
	var keys []string
	for next := ""; ; {
		var page struct {
			Entries []struct{ Key string }
			Next    string
		}
		c.get(path + "&after=" + url.QueryEscape(next)).into(&page)
		if len(page.Entries) == 0 || len(page.Entries) > limit {
			c.t.Fatalf("%d entries on a page of %d", len(page.Entries), limit)
		}
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
		if next = page.Next; next == "" {
			return keys
		}
	}
}
