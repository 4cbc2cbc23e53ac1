package viewhttp_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
)

const mailer = "/v1/events/shop/subscriptions/mailer"

// handed is one event that a claim got.
type handed struct {
	Token   string
	Attempt int
	Event   struct {
		Stream  string
		Version int
	}
}

func (h handed) String() string {
	return fmt.Sprintf("%s/%d#%d", h.Event.Stream, h.Event.Version, h.Attempt)
}

// claim asks for at most n events.
func (c client) claim(consumer string, n int) []handed {
	c.t.Helper()
	var got struct{ Events []handed }
	c.do(200, "POST", mailer+"/claim", fmt.Sprintf(`{"consumer":%q,"max":%d}`, consumer, n)).into(&got)
	return got.Events
}

// wantClaim claims and compares "stream/version#attempt".
func (c client) wantClaim(consumer string, n int, want string) []handed {
	c.t.Helper()
	got := c.claim(consumer, n)
	equal(c.t, "claimed by "+consumer, strings.Trim(fmt.Sprint(got), "[]"), want)
	return got
}

// answerTo sends tokens to ack or nack.
func (c client) answerTo(status int, verb, more string, events ...handed) answer {
	c.t.Helper()
	var tokens []string
	for _, e := range events {
		tokens = append(tokens, strconv.Quote(e.Token))
	}
	return c.do(status, "POST", mailer+"/"+verb, `{"tokens":[`+strings.Join(tokens, ",")+`]`+more+`}`)
}

func TestEventsAreClaimedAndConfirmed(t *testing.T) {
	c := serve(t, nil)
	c.do(404, "GET", mailer, "")
	c.do(404, "POST", mailer+"/claim", `{"consumer":"a"}`)
	c.do(200, "PUT", mailer, `{"select":{"category":"order"}}`)
	c.wantClaim("a", 10, "")
	placed(c, "order-1", 3)
	placed(c, "user-1", 1)
	placed(c, "order-2", 1)
	first := c.wantClaim("a", 2, "order-1/1#1 order-1/2#1")
	rest := c.wantClaim("b", 10, "order-1/3#1 order-2/1#1")
	c.wantClaim("b", 10, "")
	c.answerTo(204, "ack", "", first[1], rest[0])
	c.answerTo(204, "ack", "", first[1]) // again: it is done
	var info struct {
		Position, Last                      string
		Claimed, Waiting, Parked, Consumers int
	}
	c.get(mailer).into(&info)
	if info.Claimed != 2 || info.Waiting != 0 || info.Consumers != 2 {
		t.Errorf("%+v", info)
	}
	before := info.Position
	c.answerTo(204, "ack", "", first[0], rest[1])
	c.get(mailer).into(&info)
	if info.Claimed != 0 || info.Position == before || info.Position < info.Last {
		t.Errorf("%+v", info)
	}
	c.get("/v1/events/shop/subscriptions").is(`{"subscriptions":["mailer"]}`)
	for _, bad := range []string{`{}`, `{"consumer":"a","max":-1}`, `{"consumer":"a","wait":"1h"}`, `{"consumer":"a","wait":"x"}`} {
		c.do(400, "POST", mailer+"/claim", bad)
	}
	for _, bad := range []string{`{"strategy":"any"}`, `{"buffer":5001}`, `{"maxRetry":-1}`, `{"messageTimeout":"0s"}`, `{"from":-1}`} {
		c.do(400, "PUT", mailer, bad)
	}
	c.do(400, "POST", mailer+"/ack", `{"tokens":["x"]}`)
	c.do(400, "POST", mailer+"/ack", `{"tokens":[]}`)
	c.do(400, "POST", mailer+"/nack", `{"tokens":["1-1-1"],"action":"burn"}`)
	c.do(204, "DELETE", mailer, "")
	c.do(404, "DELETE", mailer, "")
}

func TestClaimWaitsForEvents(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{}`)
	var all sync.WaitGroup
	all.Go(func() {
		var got struct{ Events []handed }
		c.do(200, "POST", mailer+"/claim", `{"consumer":"a","wait":"30s"}`).into(&got)
		equal(t, "events", len(got.Events), 1)
	})
	placed(c, "order-1", 1)
	all.Wait()
	equal(t, "nothing comes", c.do(200, "POST", mailer+"/claim", `{"consumer":"a","wait":"20ms"}`).at("events"), "[]")
}

// TestUnansweredEventsComeAgain, with the next attempt; an answer about the one before is refused.
func TestUnansweredEventsComeAgain(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"messageTimeout":"20ms","maxRetry":1}`)
	placed(c, "order-1", 1)
	first := c.claim("a", 10)
	var second []handed
	testkit.Eventually(t, "it comes again", func() bool { second = c.claim("b", 10); return len(second) > 0 })
	equal(t, "attempt", second[0].Attempt, 2)
	p := c.answerTo(409, "ack", "", first...)
	equal(t, "kind", p.at("kind"), `"invalid"`)
	testkit.Eventually(t, "it is parked", func() bool { c.claim("b", 10); return c.get(mailer).at("parked") == "1" })
	parked := c.get(mailer + "/parked")
	for _, want := range []string{`"stream":"order-1"`, `"version":1`, `"attempts":2`, `"reason":"no consumer has confirmed it"`} {
		if !strings.Contains(parked.body, want) {
			t.Errorf("%s lacks %s", parked.body, want)
		}
	}
	c.do(200, "PUT", mailer, `{"messageTimeout":"1h","maxRetry":1}`)
	c.do(200, "POST", mailer+"/retry-parked", "").is(`{"more":false,"retried":1}`)
	third := c.wantClaim("a", 10, "order-1/1#3")
	c.answerTo(409, "ack", "", second...)
	c.answerTo(204, "ack", "", third...)
	equal(t, "parked", c.get(mailer).at("parked"), "0")
}

func TestEventsAreGivenBack(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"maxRetry":1}`)
	placed(c, "order-1", 3)
	got := c.claim("a", 10)
	c.answerTo(204, "nack", `,"action":"retry"`, got[0])
	c.answerTo(204, "nack", `,"action":"park","reason":"bad address"`, got[1])
	c.answerTo(204, "nack", `,"action":"skip"`, got[2])
	again := c.wantClaim("a", 10, "order-1/1#2")
	c.answerTo(204, "nack", `,"action":"retry","reason":"still bad"`, again...) // too often: parked
	c.wantClaim("a", 10, "")
	parked := c.get(mailer + "/parked").body
	if !strings.Contains(parked, "bad address") || !strings.Contains(parked, "still bad") {
		t.Error(parked)
	}
	c.do(200, "POST", mailer+"/retry-parked", "").is(`{"more":false,"retried":2}`)
	got = c.wantClaim("a", 1, "order-1/1#3")
	c.answerTo(204, "nack", `,"action":"stop","reason":"no network"`, got...)
	p := c.do(409, "POST", mailer+"/claim", `{"consumer":"a"}`)
	if !strings.Contains(p.body, "no network") {
		t.Error(p.body)
	}
	c.do(200, "PUT", mailer, `{"maxRetry":1}`)
	got = c.wantClaim("a", 10, "order-1/1#4 order-1/2#2")
	c.do(200, "POST", mailer+"/reset?position=0", "")
	c.answerTo(409, "ack", "", got...)
	c.wantClaim("a", 10, "order-1/1#1 order-1/2#1 order-1/3#1")
}

// TestPinnedStreamsKeepTheirOrder: while a consumer lives its streams are its own.
func TestPinnedStreamsKeepTheirOrder(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"pinned","messageTimeout":"1h"}`)
	c.claim("a", 1)
	c.claim("b", 1) // both are known
	const streams = 20
	for i := range streams {
		placed(c, "order-"+strconv.Itoa(i), 2)
	}
	owner := map[string]string{}
	next := map[string]int{}
	for n := 0; n < 2*streams; {
		for _, consumer := range []string{"a", "b"} {
			for _, e := range c.claim(consumer, 3) {
				n++
				if o := owner[e.Event.Stream]; o != "" && o != consumer {
					t.Errorf("%s is with %s and %s", e.Event.Stream, o, consumer)
				}
				owner[e.Event.Stream] = consumer
				if next[e.Event.Stream]++; next[e.Event.Stream] != e.Event.Version {
					t.Errorf("%v comes out of order", e)
				}
				c.answerTo(204, "ack", "", e)
			}
		}
	}
	shares := map[string]int{}
	for _, o := range owner {
		shares[o]++
	}
	if shares["a"] == 0 || shares["b"] == 0 {
		t.Errorf("streams by consumer: %v", shares)
	}
}

func TestSingleConsumer(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"single","messageTimeout":"100ms"}`)
	placed(c, "order-1", 2)
	got := c.wantClaim("a", 1, "order-1/1#1")
	c.answerTo(204, "ack", "", got...)
	testkit.Eventually(t, "the next one takes over when the first is silent", func() bool { return len(c.claim("b", 1)) == 1 })
}

func TestEventsThatAreGoneAreDone(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"pinned"}`)
	placed(c, "order-1", 3)
	got := c.wantClaim("a", 1, "order-1/1#1")
	c.do(204, "POST", orders+"?op=truncate&before=3", "")
	c.wantClaim("a", 10, "order-1/3#1")
	c.answerTo(204, "ack", "", got...)
	equal(t, "claimed", c.get(mailer).at("claimed"), "1")
}

// TestConsumersAtTheSameTime: each event is handed out once.
func TestConsumersAtTheSameTime(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"messageTimeout":"1h"}`)
	const n = 60
	placed(c, "order-1", n)
	var mu sync.Mutex
	seen := map[int]int{}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for {
				got := c.claim("c"+strconv.Itoa(i), 7)
				if len(got) == 0 {
					return
				}
				c.answerTo(204, "ack", "", got...)
				mu.Lock()
				for _, e := range got {
					seen[e.Event.Version]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for v := 1; v <= n; v++ {
		equal(t, "times that event "+strconv.Itoa(v)+" was handed out", seen[v], 1)
	}
}

// TestClaimsSurviveARestart of the server.
func TestClaimsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	on := func() (client, *server.Server) {
		v := viewserver.New()
		config := servertest.Config(v)
		config.Log = dir
		n := servertest.Start(t, config)
		return client{t, n.URL(), n.Log(), servertest.Client}, n
	}
	c, n := on()
	c.do(200, "PUT", mailer, `{"messageTimeout":"1h"}`)
	placed(c, "order-1", 2)
	got := c.wantClaim("a", 1, "order-1/1#1")
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, _ = on()
	c.wantClaim("b", 10, "order-1/2#1")
	c.answerTo(204, "ack", "", got...)
}

// TestSingleConsumerIsAlone: while the first consumer lives, others get nothing.
func TestSingleConsumerIsAlone(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"single","messageTimeout":"1h"}`)
	placed(c, "order-1", 3)
	got := c.wantClaim("a", 1, "order-1/1#1")
	c.wantClaim("b", 10, "")
	c.answerTo(204, "ack", "", got...)
	c.wantClaim("b", 10, "")
	c.answerTo(204, "nack", `,"action":"retry"`, c.wantClaim("a", 1, "order-1/2#1")...)
	c.wantClaim("b", 10, "")
	c.wantClaim("a", 10, "order-1/2#2 order-1/3#1")
}

// TestPinnedStreamsAreHandedOver: a consumer that joins gets nothing of a stream before the events
// of it that are with another one are confirmed, or their timeout is over.
func TestPinnedStreamsAreHandedOver(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"pinned","messageTimeout":"1h"}`)
	const streams = 20
	appendToAll := func() {
		for i := range streams {
			placed(c, "order-"+strconv.Itoa(i), 1)
		}
	}
	appendToAll()
	first := c.claim("a", 100)
	equal(t, "of the only consumer", len(first), streams)
	appendToAll()
	c.wantClaim("b", 100, "")
	c.answerTo(204, "ack", "", first...)
	ofB := c.claim("b", 100)
	if len(ofB) == 0 || len(ofB) == streams {
		t.Errorf("the one that joined has %d of %d streams", len(ofB), streams)
	}
	ofA := c.claim("a", 100)
	equal(t, "events of both", len(ofA)+len(ofB), streams)
	for _, e := range append(ofA, ofB...) {
		equal(t, "version", e.Event.Version, 2)
	}
}

func TestPinnedStreamsOfAConsumerThatHasGone(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{"strategy":"pinned","messageTimeout":"100ms"}`)
	placed(c, "order-1", 2)
	c.wantClaim("a", 1, "order-1/1#1")
	var got []handed
	testkit.Eventually(t, "the next one takes over", func() bool { got = c.claim("b", 1); return len(got) > 0 })
	equal(t, "in order", got[0].String(), "order-1/1#2")
}

// TestSubscriptionBeginsAndSelects: from and select.streams say which events are handed out.
func TestSubscriptionBeginsAndSelects(t *testing.T) {
	c := serve(t, nil)
	placed(c, "order-1", 1)
	from := c.do(201, "POST", "/v1/events/shop/streams/order-2", `[{"type":"Placed"}]`).at("lastPosition")
	placed(c, "order-3", 1)
	placed(c, "order-1", 1)
	placed(c, "order-2", 1)
	c.do(200, "PUT", mailer, `{"from":`+from+`,"select":{"streams":["order-1","order-2"]}}`)
	c.wantClaim("a", 10, "order-1/2#1 order-2/2#1")
}

// TestLagOfASubscription: it counts the events that the subscription selects and has not confirmed.
func TestLagOfASubscription(t *testing.T) {
	c := serve(t, nil)
	if a := c.do(200, "PUT", mailer, `{"select":{"category":"order"}}`); strings.Contains(a.body, `"lag"`) {
		t.Error(a.body)
	}
	equal(t, "of nothing", c.get(mailer).at("lag"), "0")
	placed(c, "order-1", 3)
	placed(c, "user-1", 2)
	equal(t, "before a claim", c.get(mailer).at("lag"), "3")
	got := c.claim("a", 2)
	equal(t, "claimed", c.get(mailer).at("lag"), "3")
	c.answerTo(204, "ack", "", got[0])
	equal(t, "one is confirmed", c.get(mailer).at("lag"), "2")
	c.answerTo(204, "nack", `,"action":"park"`, got[1])
	equal(t, "one is parked", c.get(mailer).at("lag"), "1")
	c.answerTo(204, "ack", "", c.claim("a", 2)...)
	equal(t, "all are confirmed", c.get(mailer).at("lag"), "0")
}

func TestPagesOfParkedEvents(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", mailer, `{}`)
	c.do(200, "PUT", mailer+"2", `{}`) // its parked events are others
	placed(c, "order-1", 3)
	c.answerTo(204, "nack", `,"action":"park"`, c.claim("a", 10)...)
	read := func(query string) (versions, next string) {
		t.Helper()
		var page struct {
			Parked []struct{ Version int }
			Next   string
		}
		c.get(mailer + "/parked" + query).into(&page)
		return strings.Trim(fmt.Sprint(page.Parked), "[]"), page.Next
	}
	all, next := read("")
	equal(t, "all", all, "{1} {2} {3}")
	equal(t, "no more", next, "")
	some, next := read("?limit=2")
	equal(t, "the first page", some, "{1} {2}")
	rest, end := read("?limit=2&after=" + next)
	equal(t, "the second page", rest, "{3}")
	equal(t, "no more", end, "")
	c.do(400, "GET", mailer+"/parked?after=x", "")
}
