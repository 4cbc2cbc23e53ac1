package viewhttp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
)

// handedRecord is a record that a consumer was given.
type handedRecord struct {
	Token   string
	Attempt int
	Record  struct {
		Partition int32
		Offset    string
		Text      string
	}
}

const billing = "/v1/topics/orders/groups/billing"

func (c client) claimRecords(body string) []handedRecord {
	c.t.Helper()
	var got struct{ Records []handedRecord }
	c.do(200, "POST", billing+"/claim", body).into(&got)
	return got.Records
}

// claimedTexts are those of records, with the attempts of those that came again.
func claimedTexts(list []handedRecord) string {
	var out []string
	for _, r := range list {
		text := r.Record.Text
		if r.Attempt > 1 {
			text += fmt.Sprint("#", r.Attempt)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func claimTokens(list ...handedRecord) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Token)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // of strings
	}
	return string(text)
}

func (c client) ackRecords(status int, list ...handedRecord) {
	c.t.Helper()
	c.do(status, "POST", billing+"/ack", fmt.Sprintf(`{"tokens":%s}`, claimTokens(list...)))
}

func (c client) nackRecords(status int, action string, list ...handedRecord) {
	c.t.Helper()
	c.do(status, "POST", billing+"/nack", fmt.Sprintf(`{"tokens":%s,"action":%q}`, claimTokens(list...), action))
}

// orders creates the topic, with records in each partition.
func (c client) orders(partitions int, records ...string) {
	c.t.Helper()
	c.do(200, "PUT", "/v1/topics/orders", fmt.Sprintf(`{"partitions":%d}`, partitions))
	for i, r := range records {
		c.do(201, "POST", "/v1/topics/orders", fmt.Sprintf(`[{"text":%q,"partition":%d}]`, r, i%partitions))
	}
}

// TestClaimsOfRecords: a record is with one consumer, until it is confirmed or given back, and what
// is done is the stored offset of the group.
func TestClaimsOfRecords(t *testing.T) {
	c := serve(t, nil)
	c.orders(1, "a", "b", "c", "d")
	one := c.claimRecords(`{"consumer":"one","max":2}`)
	two := c.claimRecords(`{"consumer":"two"}`)
	equal(t, "one", claimedTexts(one), "a b")
	equal(t, "two", claimedTexts(two), "c d")
	equal(t, "nothing left", len(c.claimRecords(`{"consumer":"one"}`)), 0)
	c.ackRecords(204, one[1])
	c.get(billing).is(`{"offsets":[{"partition":0,"offset":"0"}]}`)
	c.nackRecords(204, "retry", one[0])
	again := c.claimRecords(`{"consumer":"two"}`)
	equal(t, "again", claimedTexts(again), "a#2")
	c.ackRecords(409, two[0], one[0]) // an older attempt: nothing is confirmed
	c.ackRecords(204, again[0])
	c.ackRecords(204, again[0], one[1]) // done already
	c.get(billing).is(`{"offsets":[{"partition":0,"offset":"2"}]}`)
	c.nackRecords(204, "skip", two[0])
	c.ackRecords(204, two[1])
	c.get(billing).is(`{"offsets":[{"partition":0,"offset":"4"}]}`)
	c.orders(1, "e")
	equal(t, "more", claimedTexts(c.claimRecords(`{"consumer":"one","wait":"5s"}`)), "e")
}

// TestClaimIsTakenBack: a consumer that does not answer loses its records.
func TestClaimIsTakenBack(t *testing.T) {
	c := serve(t, nil)
	c.orders(2, "a", "b")
	silent := c.claimRecords(`{"consumer":"one","messageTimeout":"1ms"}`)
	equal(t, "of both partitions", claimedTexts(silent), "a b")
	var got []handedRecord
	testkit.Eventually(t, "the records come again", func() bool {
		got = append(got, c.claimRecords(`{"consumer":"two","max":1}`)...)
		return len(got) == 2
	})
	equal(t, "again", claimedTexts(got), "a#2 b#2")
	c.ackRecords(409, silent...)
	c.ackRecords(204, got...)
}

// TestClaimsFollowTheStoredOffset: who stores another offset of the group, such as an operator, decides
// where it goes on. Records that are gone are passed over.
func TestClaimsFollowTheStoredOffset(t *testing.T) {
	c := serve(t, nil)
	c.orders(1, "a", "b", "c")
	got := c.claimRecords(`{"consumer":"one"}`)
	c.ackRecords(204, got...)
	c.do(204, "PUT", billing, `[{"partition":0,"offset":"1"}]`)
	again := c.claimRecords(`{"consumer":"one","max":1}`)
	equal(t, "from the stored offset", claimedTexts(again), "b")
	c.ackRecords(409, got[1]) // of before

	topics, err := topic.Open(c.log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	tp, err := topics.Topic(t.Context(), "orders")
	if err == nil {
		_, err = tp.DeleteRecords(t.Context(), 0, 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the server sees where the partition begins", func() bool {
		return strings.Contains(c.get("/v1/topics/orders/partitions").body, `"start":"2"`)
	})
	equal(t, "what is left", claimedTexts(c.claimRecords(`{"consumer":"one"}`)), "c")

	c.do(204, "DELETE", "/v1/topics/orders", "")
	c.orders(1, "new")
	equal(t, "another topic", claimedTexts(c.claimRecords(`{"consumer":"one"}`)), "new")
}

// TestClaimsOfADeletedTopic: tokens of a topic that was deleted confirm nothing in another of its name.
func TestClaimsOfADeletedTopic(t *testing.T) {
	c := serve(t, nil)
	c.orders(1, "a")
	old := c.claimRecords(`{"consumer":"one"}`)
	equal(t, "before", claimedTexts(old), "a")
	c.do(204, "DELETE", "/v1/topics/orders", "")
	c.orders(1, "b")
	got := c.claimRecords(`{"consumer":"one"}`)
	equal(t, "the first attempt of another record of that offset", claimedTexts(got), "b")
	c.ackRecords(409, old...)
	c.nackRecords(409, "retry", old...)
	c.ackRecords(204, got...)
}

// TestConsumersShareRecords: many consumers at once have each record once.
func TestConsumersShareRecords(t *testing.T) {
	c := serve(t, nil)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	c.orders(3, want...)
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for {
				list := c.claimRecords(fmt.Sprintf(`{"consumer":"c%d","max":3}`, n))
				if len(list) == 0 {
					return
				}
				c.ackRecords(204, list...)
				mu.Lock()
				got = append(got, strings.Fields(claimedTexts(list))...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestClaimsThatCannotBe(t *testing.T) {
	c := serve(t, nil)
	c.orders(1, "a")
	for _, bad := range []string{`{}`, `{"consumer":"a","max":-1}`, `{"consumer":"a","wait":"1h"}`, `{"consumer":"a","messageTimeout":"0s"}`, `{"consumer":"a","x":1}`} {
		c.do(400, "POST", billing+"/claim", bad)
	}
	for _, bad := range []string{`{"tokens":[]}`, `{"tokens":["x"]}`, `{"tokens":["0-0-0"]}`, `{"tokens":["0-0--1-1"]}`} {
		c.do(400, "POST", billing+"/ack", bad)
	}
	c.do(409, "POST", billing+"/ack", `{"tokens":["0-0-0-1"]}`)
	c.do(409, "POST", billing+"/ack", `{"tokens":["0-7-0-1"]}`)
	c.do(400, "POST", billing+"/nack", `{"tokens":["0-0-0-1"],"action":"park"}`)
	c.do(404, "POST", "/v1/topics/none/groups/g/claim", `{"consumer":"a"}`)
}
