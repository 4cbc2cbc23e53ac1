package viewhttp_test

import (
	"strings"
	"testing"
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
