package viewhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Defaults and limits of subscriptions.
const (
	defaultMessageTimeout = 30 * time.Second
	defaultMaxRetry       = 10
	defaultBuffer         = 500
	maxBuffer             = 5000
	maxClaimWait          = 30 * time.Second
	maxConsumer           = 256 // bytes in the name of a consumer
)

// subscriptionSpec is what a subscription is to be, in JSON.
type subscriptionSpec struct {
	Select         subscriptionSelect `json:"select"`
	From           *position          `json:"from,omitempty"`
	Strategy       string             `json:"strategy,omitempty"`
	MessageTimeout string             `json:"messageTimeout,omitempty"`
	MaxRetry       *int               `json:"maxRetry,omitempty"`
	Buffer         int                `json:"buffer,omitempty"`
}

// subscriptionSelect says which events a subscription hands out.
type subscriptionSelect struct {
	Category string   `json:"category,omitempty"`
	Types    []string `json:"types,omitempty"`
	Streams  []string `json:"streams,omitempty"`
}

// config returns the specification with its defaults.
func (q *subscriptionSpec) config() (subscriptionConfig, error) {
	c := subscriptionConfig{
		Category: q.Select.Category, Types: q.Select.Types, Streams: q.Select.Streams,
		Strategy: q.Strategy, Timeout: defaultMessageTimeout, MaxRetry: defaultMaxRetry, Buffer: q.Buffer,
	}
	if q.From != nil {
		c.From = mainstem.Position(*q.From)
	}
	if c.Strategy == "" {
		c.Strategy = roundRobin
	}
	if c.Buffer == 0 {
		c.Buffer = defaultBuffer
	}
	if q.MaxRetry != nil {
		c.MaxRetry = *q.MaxRetry
	}
	if q.MessageTimeout != "" {
		d, err := time.ParseDuration(q.MessageTimeout)
		if err != nil || d < time.Millisecond || d > 24*time.Hour {
			return c, invalid("messageTimeout is %.40q: want a duration from 1ms to 24h", q.MessageTimeout)
		}
		c.Timeout = d
	}
	switch {
	case c.Strategy != roundRobin && c.Strategy != pinned && c.Strategy != single:
		return c, invalid("strategy is %.40q: want %s, %s or %s", c.Strategy, roundRobin, pinned, single)
	case c.Buffer < 1 || c.Buffer > maxBuffer:
		return c, invalid("buffer is %d: want 1 to %d", c.Buffer, maxBuffer)
	case c.MaxRetry < 0:
		return c, invalid("maxRetry is %d: want 0 or more", c.MaxRetry)
	}
	return c, nil
}

// subscription returns the subscription of the path.
func (c *call) subscription() (*subscription, error) {
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	name := c.path["subscription"]
	if len(name) > event.MaxSubscription || !isToken(name) {
		return nil, invalid("the name %.60q of the subscription: want 1 to %d letters, digits, dots, dashes and underlines", name, event.MaxSubscription)
	}
	return &subscription{h: c.h, store: s, name: name}, nil
}

// putSubscription makes a subscription, or changes it: claims and position stay as they are, and
// one that was stopped goes on.
func putSubscription(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	var q subscriptionSpec
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	config, err := q.config()
	if err != nil {
		return err
	}
	_, err = s.change(c.ctx, func(_ *mainstem.Batch, state *claimState) error {
		state.Config, state.Stopped = config, ""
		return nil
	})
	if errors.Is(err, mainstem.ErrNotFound) {
		err = s.save(c.ctx, mainstem.NewBatch(), &claimState{Epoch: uint64(time.Now().UnixNano()), Config: config, Read: config.From}, 0)
		if errors.Is(err, mainstem.ErrConflict) {
			err = nil // another request made it just now
		}
	}
	if err != nil {
		return err
	}
	return c.describeSubscription(s)
}

// subscriptionInfo describes a subscription in JSON.
type subscriptionInfo struct {
	Name           string             `json:"name"`
	Select         subscriptionSelect `json:"select"`
	Strategy       string             `json:"strategy"`
	MessageTimeout string             `json:"messageTimeout"`
	MaxRetry       int                `json:"maxRetry"`
	Buffer         int                `json:"buffer"`
	Position       position           `json:"position"` // everything up to it is done or parked
	Last           position           `json:"last"`     // of the store
	Claimed        int                `json:"claimed"`
	Waiting        int                `json:"waiting"`
	Parked         int                `json:"parked"`
	Consumers      int                `json:"consumers"`
	Stopped        string             `json:"stopped,omitempty"`
}

func (c *call) describeSubscription(s *subscription) error {
	state, _, err := s.load(c.ctx)
	if err != nil {
		return err
	}
	last, err := s.store.LastPosition(c.ctx)
	if err != nil {
		return err
	}
	state.expire(time.Now())
	f := state.Config
	out := subscriptionInfo{
		Name: s.name, Select: subscriptionSelect{f.Category, f.Types, f.Streams}, Strategy: f.Strategy, MessageTimeout: f.Timeout.String(),
		MaxRetry: f.MaxRetry, Buffer: f.Buffer, Position: position(state.mark()), Last: position(last), Consumers: len(state.Consumers), Stopped: state.Stopped,
	}
	out.Claimed, out.Waiting = state.counts()
	for _, err := range s.allParked(c.ctx) {
		if err != nil {
			return err
		}
		out.Parked++
	}
	return c.answer(http.StatusOK, out)
}

func getSubscription(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	return c.describeSubscription(s)
}

func getSubscriptions(c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	names := []string{}
	for rec, err := range c.h.log.Scan(c.ctx, claimsPrefix+s.Name(), mainstem.Range{KeysOnly: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		names = append(names, string(rec.Key))
	}
	return c.answer(http.StatusOK, map[string][]string{"subscriptions": names})
}

// deleteSubscription deletes a subscription with what it has parked.
func deleteSubscription(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	b.IfExists(s.claims(), []byte(s.name))
	b.Delete(s.claims(), []byte(s.name))
	for p, err := range s.allParked(c.ctx) {
		if err != nil {
			return err
		}
		b.Delete(s.parked(), s.parkedKey(mainstem.Position(p.Position)))
	}
	_, err = c.h.log.Commit(c.ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return refuse(http.StatusNotFound, mainstem.KindNotFound, "the store %s has no subscription %.60q", s.store.Name(), s.name)
	}
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// claimRequest asks for events.
type claimRequest struct {
	Consumer string `json:"consumer"`
	Max      int    `json:"max,omitempty"`
	Wait     string `json:"wait,omitempty"`
}

// claimedEvent is an event that was handed out, in JSON.
type claimedEvent struct {
	Token   string        `json:"token"`
	Attempt int           `json:"attempt"`
	Event   recordedEvent `json:"event"`
}

func postClaim(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	var q claimRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	wait := time.Duration(0)
	if q.Wait != "" {
		if wait, err = time.ParseDuration(q.Wait); err != nil || wait < 0 || wait > maxClaimWait {
			return invalid("wait is %.40q: want a duration up to %v", q.Wait, maxClaimWait)
		}
	}
	if q.Max == 0 {
		q.Max = 10
	}
	if q.Consumer == "" || len(q.Consumer) > maxConsumer {
		return invalid("consumer has %d bytes: want the name of this consumer, 1 to %d bytes", len(q.Consumer), maxConsumer)
	}
	if q.Max < 1 || q.Max > maxBuffer {
		return invalid("max is %d: want 1 to %d", q.Max, maxBuffer)
	}
	ctx, stop := c.untilStopped()
	defer stop()
	got, err := s.claimWithin(ctx, q.Consumer, q.Max, wait)
	if err != nil {
		return err
	}
	size := 0
	for i := range got {
		size += sizeOfEvent(&got[i].Recorded)
	}
	if err := c.reserve(frameCopies * int64(size)); err != nil {
		return err // the events come again after the message timeout
	}
	out := []claimedEvent{}
	for i := range got {
		out = append(out, claimedEvent{got[i].token.String(), got[i].attempt, recordedOf(&got[i].Recorded)})
	}
	return c.answer(http.StatusOK, map[string][]claimedEvent{"events": out})
}

// ackRequest confirms events.
type ackRequest struct {
	Tokens []string `json:"tokens"`
}

// nackRequest gives events back.
type nackRequest struct {
	Tokens []string `json:"tokens"`
	Action string   `json:"action"`
	Reason string   `json:"reason,omitempty"`
}

// tokensOf reads tokens.
func tokensOf(texts []string) ([]claimToken, error) {
	if len(texts) == 0 || len(texts) > maxBuffer {
		return nil, invalid("there are %d tokens: want 1 to %d", len(texts), maxBuffer)
	}
	out := make([]claimToken, len(texts))
	for i, text := range texts {
		var err error
		if out[i], err = parseToken(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// staleTokens is the answer to tokens of older attempts.
func staleTokens(stale []claimToken) error {
	return refuse(http.StatusConflict, mainstem.KindInvalid, "%d tokens are of older attempts, the first %s: the events were handed out again, or the subscription was reset; nothing was confirmed", len(stale), stale[0])
}

// stopped is the answer to claims of a subscription that was stopped.
func stopped(reason string) error {
	return refuse(http.StatusConflict, mainstem.KindUnavailable, "the subscription was stopped: %s; PUT it again to go on", reason)
}

func postAck(c *call) error {
	var q ackRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	return c.endClaims(q.Tokens, func(*subscription, *mainstem.Batch, *claimState, []claimEntry) {})
}

// endClaims ends the claims of tokens, and does something with their entries in the same commit.
func (c *call) endClaims(texts []string, do func(s *subscription, b *mainstem.Batch, state *claimState, ended []claimEntry)) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	tokens, err := tokensOf(texts)
	if err != nil {
		return err
	}
	_, err = s.change(c.ctx, func(b *mainstem.Batch, state *claimState) error {
		ended, stale := state.resolve(tokens)
		if len(stale) > 0 {
			return staleTokens(stale)
		}
		do(s, b, state, ended)
		return nil
	})
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func postNack(c *call) error {
	var q nackRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	if len(q.Reason) > maxReason {
		return invalid("reason has %d bytes: the limit is %d", len(q.Reason), maxReason)
	}
	now := time.Now()
	var do func(s *subscription, b *mainstem.Batch, state *claimState, ended []claimEntry)
	switch q.Action {
	case "retry":
		do = func(s *subscription, b *mainstem.Batch, state *claimState, ended []claimEntry) {
			s.park(b, state.putBack(ended), q.Reason, now)
		}
	case "park":
		do = func(s *subscription, b *mainstem.Batch, _ *claimState, ended []claimEntry) {
			s.park(b, ended, q.Reason, now)
		}
	case "skip":
		do = func(*subscription, *mainstem.Batch, *claimState, []claimEntry) {}
	case "stop":
		do = func(s *subscription, b *mainstem.Batch, state *claimState, ended []claimEntry) {
			s.park(b, state.putBack(ended), q.Reason, now)
			state.Stopped = fmt.Sprintf("by a consumer: %s", q.Reason)
		}
	default:
		return invalid("action is %.40q: want retry, park, skip or stop", q.Action)
	}
	return c.endClaims(q.Tokens, do)
}

func getParked(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	if _, _, err := s.load(c.ctx); err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	for e, err := range s.allParked(c.ctx) {
		if err != nil {
			return err
		}
		more, err := p.add(e, len(e.Reason)+len(e.Stream)+128)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return p.send("parked", nil)
}

func postRetryParked(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	n, left, err := s.retryParked(c.ctx)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, map[string]any{"retried": n, "more": left})
}

// postReset makes a subscription begin after a position. Claims from before count for nothing.
func postReset(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	at, err := c.number("position")
	if err != nil {
		return err
	}
	_, err = s.change(c.ctx, func(_ *mainstem.Batch, state *claimState) error {
		state.Epoch++
		state.Read, state.Entries, state.Stopped = mainstem.Position(at), nil, ""
		return nil
	})
	if err != nil {
		return err
	}
	return c.describeSubscription(s)
}
