package viewhttp_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

const orders = "/v1/events/shop/streams/order-1"

func TestEventsAreAppendedAndRead(t *testing.T) {
	c := serve(t, nil)
	id := event.NewID().String()
	body := `[{"id":"` + id + `","type":"Placed","data":{"n": 1},"metadata":{"userId":"u","correlationId":"c","custom":{"k":"v"}}},{"type":"Paid","text":"ok","contentType":"text/plain"},{"type":"Sealed","data64":"/wA="},{"type":"Empty"}]`
	a := c.do(201, "POST", orders, body, "Expected-Version", "none")
	var got struct {
		First, Last                 int
		FirstPosition, LastPosition string
		Duplicate                   bool
	}
	a.into(&got)
	equal(t, "first", got.First, 1)
	equal(t, "last", got.Last, 4)
	equal(t, "position", got.LastPosition, a.header.Get("Mainstem-Position"))

	page := c.get(orders)
	equal(t, "version", page.header.Get("Mainstem-Version"), "4")
	var read struct {
		Events []struct {
			ID, Type, Stream, Text, Data64, Position, ContentType string
			Data                                                  map[string]int
			Version                                               int
			Metadata                                              struct {
				UserID, CorrelationID string
				Custom                map[string]string
			}
		}
	}
	page.into(&read)
	e := read.Events
	if len(e) != 4 || e[0].ID != id || e[0].Data["n"] != 1 || e[0].ContentType != "application/json" || e[0].Metadata.UserID != "u" || e[0].Metadata.Custom["k"] != "v" ||
		e[0].Position != got.FirstPosition || e[1].Text != "ok" || e[2].Data64 != "/wA=" || e[3].Version != 4 || e[3].Stream != "order-1" {
		t.Errorf("%+v", e)
	}

	p := c.do(409, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "3")
	for name, want := range map[string]string{"kind": `"conflict"`, "expected": `"3"`, "actual": "4", "deleted": "false", "outcome": `"not_written"`} {
		equal(t, name, p.at(name), want)
	}
	equal(t, "expected", c.do(409, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "none").at("expected"), `"none"`)
	c.do(404, "POST", "/v1/events/shop/streams/order-2", `[{"type":"X"}]`, "Expected-Version", "exists")
	c.do(201, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "exists")
	c.do(201, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "5")
	for _, bad := range []string{"", "{}", "[]", `[{}]`, `[{"type":"X","data":1,"text":""}]`, `[{"type":"X","tag":1}]`, `[{"type":"$deleted"}]`, `[{"type":"X","id":"x"}]`} {
		c.do(400, "POST", orders, bad)
	}
	c.do(400, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "-1")
	c.do(400, "POST", orders+"?before=1", `[{"type":"X"}]`)
	c.do(404, "GET", "/v1/events/shop/streams/none", "")
}

func TestAppendsThatAreSentTwice(t *testing.T) {
	c := serve(t, nil)
	body := `[{"id":"` + event.NewID().String() + `","type":"Placed","data":1}]`
	c.do(201, "POST", orders, body, "Expected-Version", "none")
	again := c.do(201, "POST", orders, body, "Expected-Version", "none")
	equal(t, "by ID", again.header.Get("Mainstem-Duplicate"), "true")
	equal(t, "first", again.at("first"), "1")

	key := []string{"Idempotency-Key", "k"}
	first := c.do(201, "POST", orders, `[{"type":"Paid"},{"type":"Sent"}]`, key...)
	equal(t, "duplicate", first.at("duplicate"), "false")
	c.do(201, "POST", orders, `[{"type":"Other"}]`)
	again = c.do(201, "POST", orders, `[{"type":"Paid"},{"type":"Sent"}]`, key...)
	equal(t, "by key", again.header.Get("Mainstem-Duplicate"), "true")
	for _, name := range []string{"first", "last", "firstPosition", "lastPosition"} {
		equal(t, name, again.at(name), first.at(name))
	}
	c.do(422, "POST", orders, `[{"type":"Paid"}]`, key...)
	c.do(422, "POST", orders, `[{"type":"Paid"},{"type":"Sent"}]`, append(key, "Expected-Version", "3")...)
	equal(t, "events", c.get(orders).header.Get("Mainstem-Version"), "4")
	c.do(409, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "1", "Idempotency-Key", "k2")
}

// placed appends n events to a stream, one by one.
func placed(c client, stream string, n int) {
	for range n {
		c.do(201, "POST", "/v1/events/shop/streams/"+stream, `[{"type":"Placed"}]`)
	}
}

// versions returns the versions of a page of events, with the cursor after them.
func versions(t testing.TB, a answer) string {
	t.Helper()
	var page struct {
		Events []struct{ Version int }
		Next   int
	}
	a.into(&page)
	var out []string
	for _, e := range page.Events {
		out = append(out, strconv.Itoa(e.Version))
	}
	if page.Next > 0 {
		out = append(out, "…"+strconv.Itoa(page.Next))
	}
	return strings.Join(out, " ")
}

func TestPagesOfAStream(t *testing.T) {
	c := serve(t, nil)
	placed(c, "order-1", 5)
	at := c.get(orders + "?from=3&limit=1").at("events")
	third := at[strings.Index(at, `"position":"`)+len(`"position":"`):]
	third = third[:strings.Index(third, `"`)]
	for query, want := range map[string]string{
		"": "1 2 3 4 5", "?limit=2": "1 2 …3", "?from=3&limit=2": "3 4 …5", "?from=4": "4 5", "?from=2&to=3": "2 3",
		"?backward&limit=2": "5 4 …3", "?backward&to=3": "3 2 1", "?upTo=" + third: "1 2 3", "?from=9": "",
		"?until=2000-01-01T00:00:00Z": "", "?until=2200-01-01T00:00:00Z&limit=1": "1 …2",
	} {
		equal(t, query, versions(t, c.get(orders+query)), want)
	}
	equal(t, "lines", strings.Count(c.get(orders+"?from=2", "Accept", "application/x-ndjson").body, "\n"), 4)
	equal(t, "lines backward", strings.Count(c.get(orders+"?backward", "Accept", "application/x-ndjson").body, "\n"), 5)
	equal(t, "lines", strings.Count(c.get(orders+"?limit=2", "Accept", "application/x-ndjson").body, "\n"), 2)
	for _, bad := range []string{"?from=x", "?until=now", "?after=1", "?upTo=-1"} {
		c.do(400, "GET", orders+bad, "")
	}
}

func TestFollowersOfAStream(t *testing.T) {
	c := serve(t, nil)
	f := c.follow(orders) // before its first event
	placed(c, "order-1", 2)
	placed(c, "order-2", 1)
	placed(c, "order-1", 1)
	var ids []string
	for i := range 3 {
		e := f.want("event")
		equal(t, "version", f.field(e, "version"), strconv.Itoa(i+1))
		equal(t, "id", strconv.Quote(e.id), f.field(e, "position"))
		ids = append(ids, e.id)
	}
	f.stop()
	for i, id := range ids[:2] {
		f := c.follow(orders, "Last-Event-ID", id)
		equal(t, "resumed", f.want("event").id, ids[i+1])
		f.stop()
	}
	f = c.follow(orders, "Last-Event-ID", ids[2])
	placed(c, "order-1", 1)
	equal(t, "resumed at the end", f.field(f.want("event"), "version"), "4")
	f.stop()
	f = c.follow(orders + "?from=3")
	equal(t, "from", f.want("event").id, ids[2])
	f.stop()

	c.do(204, "POST", orders+"?op=truncate&before=3", "")
	sse := []string{"Accept", "text/event-stream", "Last-Event-ID"}
	c.do(410, "GET", orders, "", append(sse, ids[0])...)
	f = c.follow(orders, "Last-Event-ID", ids[2])
	equal(t, "resumed after the truncation", f.field(f.want("event"), "version"), "4")
	c.do(410, "GET", orders, "", append(sse, "100000")...)
	c.do(400, "GET", orders+"?limit=1", "", "Accept", "text/event-stream")
}

func TestEndsOfAStream(t *testing.T) {
	c := serve(t, nil)
	placed(c, "order-1", 3)
	c.do(204, "POST", orders+"?op=truncate&before=2", "")
	equal(t, "truncated", versions(t, c.get(orders)), "2 3")

	key := []string{"Idempotency-Key", "k"}
	c.do(204, "POST", orders+"?op=archive", "", key...)
	equal(t, "again", c.do(204, "POST", orders+"?op=archive", "", key...).header.Get("Mainstem-Duplicate"), "true")
	p := c.do(423, "POST", orders, `[{"type":"X"}]`)
	equal(t, "seal", p.at("seal"), `"archived"`)
	c.do(423, "POST", orders+"?op=archive", "")
	equal(t, "still read", versions(t, c.get(orders)), "2 3")
	c.do(204, "POST", orders+"?op=unarchive", "", "Idempotency-Key", "k2")
	equal(t, "again", c.do(204, "POST", orders+"?op=unarchive", "", "Idempotency-Key", "k2").header.Get("Mainstem-Duplicate"), "true")
	c.do(404, "POST", orders+"?op=unarchive", "")
	c.do(404, "POST", orders+"?op=unarchive", "", "Idempotency-Key", "k3")

	c.do(409, "DELETE", orders, "", "Expected-Version", "2")
	c.do(204, "DELETE", orders, "", "Expected-Version", "3")
	gone := c.do(404, "GET", orders, "")
	equal(t, "version", gone.header.Get("Mainstem-Version"), "4")
	c.do(201, "POST", orders, `[{"type":"X"}]`, "Expected-Version", "none")
	c.do(204, "DELETE", orders+"?tombstone", "")
	equal(t, "seal", c.do(423, "POST", orders, `[{"type":"X"}]`).at("seal"), `"tombstoned"`)

	placed(c, "order-2", 2)
	c.do(204, "DELETE", "/v1/events/shop/streams/order-2?forget", "")
	c.do(404, "GET", "/v1/events/shop/streams/order-2", "")
	c.do(400, "DELETE", orders+"?forget&tombstone", "")
	c.do(400, "DELETE", orders+"?forget", "", "Expected-Version", "1")
	c.do(400, "POST", orders+"?op=melt", "")
	c.do(400, "POST", orders+"?op=truncate", "")
	c.do(400, "POST", orders+"?op=archive&before=1", "")
}

func TestSettingsAndSnapshots(t *testing.T) {
	c := serve(t, nil)
	c.get(orders + "/settings").is(`{}`)
	c.do(204, "PUT", orders+"/settings", `{"maxCount":5,"maxAge":"24h","custom":{"a":"b"}}`)
	c.get(orders + "/settings").is(`{"maxCount":5,"maxAge":"24h0m0s","custom":{"a":"b"}}`)
	c.do(400, "PUT", orders+"/settings", `{"maxAge":"x"}`)
	c.do(400, "PUT", orders+"/settings", `{"max":1}`)

	c.do(404, "GET", orders+"/snapshot", "")
	c.do(404, "PUT", orders+"/snapshot", "state", "Mainstem-Version", "1")
	placed(c, "order-1", 2)
	c.do(204, "PUT", orders+"/snapshot", "\x00state", "Mainstem-Version", "2", "Mainstem-Type", "order.v1")
	snap := c.get(orders + "/snapshot")
	equal(t, "state", snap.body, "\x00state")
	equal(t, "version", snap.header.Get("Mainstem-Version"), "2")
	equal(t, "type", snap.header.Get("Mainstem-Type"), "order.v1")
	c.do(404, "GET", orders+"/snapshot?upTo=1", "")
	c.do(400, "PUT", orders+"/snapshot", "state")
	c.do(204, "DELETE", orders+"/snapshot", "")
	c.do(404, "GET", orders+"/snapshot", "")
}

func TestFeedOfAStore(t *testing.T) {
	c := serve(t, nil)
	c.get("/v1/events").is(`{"stores":[]}`)
	c.do(404, "GET", "/v1/events/shop", "")
	f := c.follow("/v1/events/shop/feed?category=order&type=Placed&type=Paid")
	placed(c, "order-1", 1)
	placed(c, "user-1", 1)
	c.do(201, "POST", orders, `[{"type":"Sent"},{"type":"Paid"}]`)
	first := f.want("event")
	equal(t, "stream", f.field(first, "stream"), `"order-1"`)
	equal(t, "type", f.field(f.want("event"), "type"), `"Paid"`)
	f.stop()
	f = c.follow("/v1/events/shop/feed", "Last-Event-ID", first.id)
	equal(t, "resumed", f.field(f.want("event"), "stream"), `"user-1"`)
	f.stop()

	var page struct {
		Events []struct{ Stream, Type, Position string }
		Next   string
		More   bool
	}
	c.get("/v1/events/shop/feed?limit=2").into(&page)
	if len(page.Events) != 2 || !page.More || page.Next != page.Events[1].Position {
		t.Errorf("%+v", page)
	}
	c.get("/v1/events/shop/feed?after=" + page.Next).into(&page)
	if len(page.Events) != 2 || page.More || page.Events[1].Type != "Paid" {
		t.Errorf("%+v", page)
	}
	last := page.Next
	c.get("/v1/events/shop/feed?after=" + last).into(&page)
	if len(page.Events) != 0 || page.More || page.Next != last {
		t.Errorf("%+v", page)
	}
	equal(t, "lines", strings.Count(c.get("/v1/events/shop/feed?limit=3", "Accept", "application/x-ndjson").body, "\n"), 3)
	c.get("/v1/events").is(`{"stores":["shop"]}`)
	equal(t, "streams", c.get("/v1/events/shop").at("streams"), "2")
	c.do(410, "GET", "/v1/events/shop/feed", "", "Accept", "text/event-stream", "Last-Event-ID", "12345")
}

func TestStreamsOfAStore(t *testing.T) {
	c := serve(t, nil)
	for _, s := range []string{"order-1", "order-2", "user-1"} {
		placed(c, s, 1)
	}
	c.do(204, "POST", orders+"?op=archive", "")
	for query, want := range map[string]string{
		"": "order-2 user-1", "?archived": "order-1 order-2 user-1", "?category=order": "order-2", "?prefix=u": "user-1",
		"?limit=1": "order-2 …order-2", "?after=order-2": "user-1", "?reverse": "user-1 order-2",
	} {
		var page struct {
			Streams []struct{ Stream string }
			Next    string
		}
		c.get("/v1/events/shop/streams" + query).into(&page)
		var out []string
		for _, s := range page.Streams {
			out = append(out, s.Stream)
		}
		if page.Next != "" {
			out = append(out, "…"+page.Next)
		}
		equal(t, query, strings.Join(out, " "), want)
	}
	c.do(400, "GET", "/v1/events/%01/streams", "")
}

// TestFollowerIsRefusedWhatRetentionRemoved: the events after its position are gone, and no
// record is left that says how old that is.
func TestFollowerIsRefusedWhatRetentionRemoved(t *testing.T) {
	c := serve(t, nil)
	if err := c.log.CreateSpace(t.Context(), "event/shop", mainstem.Policy{MaxAge: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	const feed = "/v1/events/shop/feed"
	var page struct{ Events []struct{ Position string } }
	events := func() int {
		page.Events = nil
		c.get(feed).into(&page)
		return len(page.Events)
	}
	sse := []string{"Accept", "text/event-stream", "Last-Event-ID"}
	placed(c, "order-1", 2)
	testkit.Eventually(t, "the events are removed", func() bool { return events() == 0 })
	c.do(410, "GET", feed, "", append(sse, "1")...)
	c.follow(feed, sse[2], "2").stop() // there was nothing after it
	placed(c, "order-2", 1)
	c.do(410, "GET", feed, "", append(sse, "1")...)
	c.follow(feed, sse[2], "3").stop()
}

// TestFeedWithArchivedAndDeletedStreams: they are left out unless the query names them.
func TestFeedWithArchivedAndDeletedStreams(t *testing.T) {
	c := serve(t, nil)
	for _, s := range []string{"order-1", "order-2", "order-3"} {
		placed(c, s, 1)
	}
	c.do(204, "POST", orders+"?op=archive", "")
	c.do(204, "DELETE", "/v1/events/shop/streams/order-2", "")
	for query, want := range map[string]string{
		"": "order-3/Placed", "?archived": "order-1/Placed order-3/Placed", "?deletions": "order-3/Placed order-2/$deleted",
	} {
		var page struct {
			Events []struct{ Stream, Type string }
		}
		c.get("/v1/events/shop/feed" + query).into(&page)
		var out []string
		for _, e := range page.Events {
			out = append(out, e.Stream+"/"+e.Type)
		}
		equal(t, query, strings.Join(out, " "), want)
	}
}
