package viewhttp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/event"
)

// TestTagsOfEvents: events are appended with tags, and found and followed by them.
func TestTagsOfEvents(t *testing.T) {
	c := serve(t, nil)
	c.do(201, "POST", "/v1/events/school/streams/course-1", `[{"type":"Defined","tags":["course:c1"]},{"type":"Subscribed","tags":["course:c1","student:ada"]}]`)
	c.do(201, "POST", "/v1/commit", `{"id":"b1","do":[{"event.append":{"store":"school","stream":"course-2","events":[{"type":"Subscribed","tags":["course:c2","student:ada"]}]}}]}`)
	if got := c.get("/v1/events/school/streams/course-1?from=2").body; !strings.Contains(got, `"tags":["course:c1","student:ada"]`) {
		t.Error(got)
	}
	var page struct {
		Events []struct{ Stream, Type string }
		Next   string
		More   bool
	}
	const feed = "/v1/events/school/feed?tag="
	c.get(feed + "student:ada").into(&page)
	if len(page.Events) != 2 || page.More || page.Events[1].Stream != "course-2" {
		t.Errorf("%+v", page)
	}
	c.get(feed + "course:c1&tag=student:ada&type=Subscribed").into(&page)
	if len(page.Events) != 1 || page.Events[0].Stream != "course-1" {
		t.Errorf("%+v", page)
	}
	c.get(feed + "course:c1&limit=1").into(&page)
	if len(page.Events) != 1 || !page.More {
		t.Errorf("%+v", page)
	}
	c.get(feed + "course:c1&after=" + page.Next).into(&page)
	if len(page.Events) != 1 || page.More || page.Events[0].Type != "Subscribed" {
		t.Errorf("%+v", page)
	}
	f := c.follow(feed + "student:ada")
	first := f.want("event")
	f.stop()
	f = c.follow(feed+"student:ada", "Last-Event-ID", first.id)
	equal(t, "resumed", f.field(f.want("event"), "stream"), `"course-2"`)
	c.do(201, "POST", "/v1/events/school/streams/course-3", `[{"type":"Subscribed"},{"type":"Left","tags":["student:ada"]}]`)
	equal(t, "followed", f.field(f.want("event"), "type"), `"Left"`)
	f.stop()
	equal(t, "lines", strings.Count(c.get(feed+"student:ada", "Accept", "application/x-ndjson").body, "\n"), 3)
	c.do(400, "GET", feed+"student:ada&category=course", "")
	c.do(400, "GET", feed, "")
	c.do(400, "POST", "/v1/events/school/streams/course-1", `[{"type":"Defined","tags":[""]}]`)
}

// TestWritesToAnIndexedStore: all writes know of the index, and a repeated one that was made before
// there was one is answered with what it did then.
func TestWritesToAnIndexedStore(t *testing.T) {
	c := serve(t, nil)
	const course = "/v1/events/school/streams/course-"
	early := []string{"Idempotency-Key", "early"}
	first := c.do(201, "POST", course+"1", `[{"type":"Defined","tags":["course:c1"]},{"type":"Left"}]`, early...).body
	school, err := event.OpenIndexed(t.Context(), c.log, "school", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := c.do(201, "POST", course+"1", `[{"type":"Defined","tags":["course:c1"]},{"type":"Left"}]`, early...).body
	equal(t, "made before the index", again, strings.Replace(first, `"duplicate":false`, `"duplicate":true`, 1))

	for range 2 { // the second time it is a duplicate
		var done struct {
			First, Last                 uint64
			FirstPosition, LastPosition string
		}
		c.do(201, "POST", course+"2", `[{"type":"Defined","tags":["course:c2"]},{"type":"Left"}]`, "Idempotency-Key", "late").into(&done)
		evs, err := school.Load(t.Context(), "course-2", nil)
		if err != nil || len(evs) != 2 || done.First != 1 || done.Last != 2 || done.LastPosition != fmt.Sprint(evs[1].Position) {
			t.Errorf("%+v of %+v, %v", done, evs, err)
		}
	}
	var commit struct {
		Results []struct {
			First, Last                 uint64
			FirstPosition, LastPosition string
		}
	}
	const do = `{"id":"b1","do":[{"event.append":{"store":"school","stream":"course-3","events":[{"type":"Defined","tags":["course:c3"]},{"type":"Left"}]}},
		{"event.append":{"store":"school","stream":"course-2","events":[{"type":"Left"}]}}]}`
	for range 2 {
		c.do(201, "POST", "/v1/commit", do).into(&commit)
		evs, err := school.Load(t.Context(), "course-3", nil)
		if err != nil || len(evs) != 2 || len(commit.Results) != 2 {
			t.Fatalf("%+v of %+v, %v", commit, evs, err)
		}
		if r := commit.Results[0]; r.First != 1 || r.Last != 2 || r.FirstPosition != fmt.Sprint(evs[0].Position) || r.LastPosition != fmt.Sprint(evs[1].Position) {
			t.Errorf("%+v of %+v", r, evs)
		}
		if r := commit.Results[1]; r.First != 3 || r.Last != 3 {
			t.Errorf("%+v", r)
		}
	}
	c.do(204, "POST", course+"2?op=truncate&before=2", "")
	c.do(204, "POST", course+"2?op=archive", "")
	c.do(204, "POST", course+"2?op=unarchive", "")
	c.do(204, "DELETE", course+"1", "")
	c.do(204, "DELETE", course+"2?tombstone=true", "")
	c.do(204, "DELETE", course+"3?forget=true", "")
	left, err := school.Load(t.Context(), "course-3", nil)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
