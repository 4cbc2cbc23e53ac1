package viewhttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A write with an idempotency key is a batch whose ID is the hash of the principal, the method,
// the path and the key. The batch also writes one record of idempotencySpace under that ID: the
// hash of the request, and what the answer has that the receipt of the log does not say. So of
// two requests that run at the same time one is made, and the log gives its receipt to both (law
// 6); whether the other one is the same request shows in the record, and its answer is made of
// the same receipt.
const (
	idempotencySpace = "http.idempotency"
	// idempotencyAge is longer than logs remember IDs by default, so that whatever has a receipt
	// has a record.
	idempotencyAge = 25 * time.Hour
	maxKey         = 255 // bytes in an idempotency key
)

var idempotencyPolicy = mainstem.Policy{History: 1, NoFeed: true, TombstoneAge: time.Minute}

// remembered is the value of a record of idempotencySpace, as JSON.
type remembered struct {
	Request []byte          `json:"request"`        // hash of the request
	Memo    json.RawMessage `json:"memo,omitempty"` // what the answer says besides the receipt
}

// requestHeaders are those that change what a write does, besides metadata.
//
// Invariant: they contain all headers that an operation with an idempotency key declares.
var requestHeaders = []string{"If-Match", "If-None-Match", headerTTL, headerExpected, headerVersion, headerType}

// keyless are the writes that take no idempotency key, by their operation IDs, with the reason that a
// client gets. The log has no commit of theirs that could hold the record of a key, or sending them
// again is safe already.
//
// Invariant: a write has the parameter ofIdempotency, or is here.
var keyless = map[string]string{
	"dropTable":    "it takes many commits, and sent again it drops what was written since: look first whether the table is there",
	"dropDatabase": "it takes many commits, and sent again it drops what was written since: look first whether the database has tables",

	"deleteSnapshots": "sent again it deletes the snapshots that were saved since, which are only copies of the state: send it without the key",

	"putTopic":    "sent again it changes nothing: send it without the key",
	"deleteTopic": "it takes many commits, and sent again it deletes a topic that was created since: look first whether the topic is there",

	"putSubscription":    "sent again it sets the same again: send it without the key",
	"deleteSubscription": "sent again it deletes a subscription that was made since: look first whether the subscription is there",
	"claim":              "events whose answer was lost come again after the message timeout: claim without the key",
	"ack":                "a token that is confirmed already is confirmed again: send it without the key",
	"nack":               "a token gives its event back once, and is 204 or 409 after that: send it without the key",
	"retryParked":        "sent again it hands out what was parked since, too: send it without the key",
	"reset":              "sent again it begins after the same position, and events that were confirmed since come again: send it without the key",

	"claimRecords": "records whose answer was lost come again after the message timeout: claim without the key",
	"ackRecords":   "a token that is confirmed already is confirmed again: send it without the key",
	"nackRecords":  "a token gives its record back once, and is 204 or 409 after that: send it without the key",
}

// checkKey refuses an idempotency key of a write that does not take one: the client would rely on
// it. Reads ignore it.
func (c *call) checkKey() error {
	o := c.operation
	if o.method == http.MethodGet || len(c.r.Header.Values(headerKey)) == 0 || o.parameter(inHeader, headerKey) != nil {
		return nil
	}
	return invalid("%s takes no %s: %s", o.id, headerKey, keyless[o.id])
}

// identity is what makes a write one that may be sent twice; the zero value does not.
type identity struct {
	id      string // of the batch
	request []byte
}

// identify returns the identity of a write with this body: that of its idempotency key, if it
// has one.
func (c *call) identify(body []byte) (identity, error) {
	values := c.r.Header.Values(headerKey)
	if len(values) == 0 {
		return identity{}, nil
	}
	if len(values) > 1 {
		return identity{}, invalid("%s is there %d times: want it once", headerKey, len(values))
	}
	return c.identityOf(values[0], body)
}

func (c *call) identityOf(key string, body []byte) (identity, error) {
	if key == "" || len(key) > maxKey {
		return identity{}, invalid("the idempotency key has %d bytes: want 1 to %d", len(key), maxKey)
	}
	id := digest(c.principal, c.r.Method, c.r.URL.EscapedPath(), key)
	parts := []string{c.query.Encode()}
	for _, name := range requestHeaders {
		parts = append(parts, c.r.Header.Get(name))
	}
	for _, m := range slices.Sorted(metadataNames(c.r.Header)) {
		parts = append(parts, m, c.r.Header.Get(m))
	}
	request := digest(append(parts, string(body))...)
	return identity{id: "http:" + base64.RawURLEncoding.EncodeToString(id), request: request}, nil
}

// digest hashes texts, each with its length, so that no two lists are the same bytes.
func digest(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		writePart(h, p)
	}
	return h.Sum(nil)
}

func writePart(h hash.Hash, p string) { fmt.Fprintf(h, "%d:%s", len(p), p) }

// commit commits b, once for all requests with its identity. memo is what the answer says that
// the receipt does not; of a duplicate it is that of the first.
func (c *call) commit(b *mainstem.Batch, who identity, memo json.RawMessage) (mainstem.Receipt, json.RawMessage, error) {
	if err := b.Err(); err != nil {
		return c.made(who, err)
	}
	if who.id != "" {
		value, err := json.Marshal(remembered{Request: who.request, Memo: memo})
		if err != nil {
			return mainstem.Receipt{}, nil, mainstem.Refusef(mainstem.KindInternal, "http", "encode an answer: %w", err)
		}
		b.ID = who.id
		b.Ensure(idempotencySpace, idempotencyPolicy)
		b.Add(mainstem.Write{Op: mainstem.OpPut, Space: idempotencySpace, Key: []byte(who.id), Value: value, TTL: idempotencyAge})
	}
	return c.commitBatch(b, who, memo)
}

// made returns the receipt and the memo of the first request with an identity, as commit does, for a
// request whose batch cannot be built: it reads what has changed since, such as a topic that is gone.
// If no such request was made, or the log has forgotten it, the error is failed. The log is asked
// with a batch whose conditions contradict each other, so it writes nothing in any case.
func (c *call) made(who identity, failed error) (mainstem.Receipt, json.RawMessage, error) {
	if who.id == "" {
		return mainstem.Receipt{}, nil, failed
	}
	b := mainstem.NewBatch()
	b.IfAbsent(idempotencySpace, []byte(who.id))
	b.IfExists(idempotencySpace, []byte(who.id))
	b.ID = who.id
	r, memo, err := c.commitBatch(b, who, nil)
	if errors.Is(err, mainstem.ErrConflict) {
		err = failed
	}
	return r, memo, err
}

// commitBatch commits a batch that has the ID of an identity, if there is one.
func (c *call) commitBatch(b *mainstem.Batch, who identity, memo json.RawMessage) (mainstem.Receipt, json.RawMessage, error) {
	r, err := c.h.log.Commit(c.ctx, b)
	if err != nil {
		return mainstem.Receipt{}, nil, err
	}
	if r.Duplicate {
		if memo, err = c.recall(who); err != nil {
			return mainstem.Receipt{}, nil, err
		}
	}
	c.setReceipt(r)
	return r, memo, nil
}

// recall returns the memo of the first request with an identity, or why this one is another.
func (c *call) recall(who identity) (json.RawMessage, error) {
	rec, err := c.h.log.Get(c.ctx, idempotencySpace, []byte(who.id))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, refuse(http.StatusUnprocessableEntity, mainstem.KindExists, "the %s was used before, and for which request is not remembered any more: use another key", headerKey)
	}
	if err != nil {
		return nil, err
	}
	var first remembered
	if err := json.Unmarshal(rec.Value, &first); err != nil {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "http", "an idempotency record: %w", err).At(idempotencySpace, rec.Key)
	}
	if !bytes.Equal(first.Request, who.request) {
		return nil, refuse(http.StatusUnprocessableEntity, mainstem.KindExists, "the %s was used before, for another request: use another key", headerKey)
	}
	return first.Memo, nil
}

// positionsOf returns the positions of the writes of a batch, 0 for those that wrote nothing. On
// an engine that leaves gaps between the positions of one batch, all have that of the last.
func positionsOf(r mainstem.Receipt) []mainstem.Position {
	out := make([]mainstem.Position, len(r.Versions))
	n := mainstem.Position(0)
	for i, v := range r.Versions {
		if v != 0 {
			out[i] = r.First + n
			n++
		}
	}
	if n > 0 && r.Last-r.First+1 != n {
		for i, v := range r.Versions {
			if v != 0 {
				out[i] = r.Last
			}
		}
	}
	return out
}
