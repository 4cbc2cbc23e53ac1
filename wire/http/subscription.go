package viewhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/claims"
)

// Defaults and limits of subscriptions.
const (
	defaultMessageTimeout = 30 * time.Second
	defaultMaxRetry       = 10
	defaultBuffer         = 500
	maxBuffer             = 5000
	maxClaimWait          = 30 * time.Second
	maxConsumer           = 256    // bytes in the name of a consumer
	maxLag                = 10_000 // events that are counted as lag
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
func (q *subscriptionSpec) config() (claims.Config, error) {
	c := claims.Config{
		Filter:   event.Filter{Category: q.Select.Category, Types: q.Select.Types, Streams: q.Select.Streams},
		Strategy: q.Strategy, Timeout: defaultMessageTimeout, MaxRetry: defaultMaxRetry, Buffer: q.Buffer,
	}
	if q.From != nil {
		c.From = mainstem.Position(*q.From)
	}
	if c.Strategy == "" {
		c.Strategy = claims.RoundRobin
	}
	if c.Buffer == 0 {
		c.Buffer = defaultBuffer
	}
	if q.MaxRetry != nil {
		c.MaxRetry = *q.MaxRetry
	}
	if q.MessageTimeout != "" {
		d, err := parseMessageTimeout(q.MessageTimeout)
		if err != nil {
			return c, err
		}
		c.Timeout = d
	}
	switch {
	case c.Strategy != claims.RoundRobin && c.Strategy != claims.Pinned && c.Strategy != claims.Single:
		return c, invalid("strategy is %.40q: want %s, %s or %s", c.Strategy, claims.RoundRobin, claims.Pinned, claims.Single)
	case c.Buffer < 1 || c.Buffer > maxBuffer:
		return c, invalid("buffer is %d: want 1 to %d", c.Buffer, maxBuffer)
	case c.MaxRetry < 0:
		return c, invalid("maxRetry is %d: want 0 or more", c.MaxRetry)
	}
	return c, nil
}

// subscription returns the subscription of the path.
func (c *call) subscription() (*claims.Subscription, error) {
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	return claims.Open(s, c.path["subscription"])
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
	if err := s.Put(c.ctx, config); err != nil {
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
	Position       position           `json:"position"`      // everything up to it is done or parked
	Last           position           `json:"last"`          // of the store
	Lag            *int               `json:"lag,omitempty"` // events that are not confirmed, maxLag at the most; of GET only
	Claimed        int                `json:"claimed"`
	Waiting        int                `json:"waiting"`
	Parked         int                `json:"parked"`
	Consumers      int                `json:"consumers"`
	Stopped        string             `json:"stopped,omitempty"`
}

// describeSubscription answers a change of a subscription with how it stands. It does not count the
// lag, which reads the events of the store.
func (c *call) describeSubscription(s *claims.Subscription) error {
	in, err := s.Info(c.ctx)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, infoOf(s, &in))
}

func infoOf(s *claims.Subscription, in *claims.Info) subscriptionInfo {
	f := &in.Config
	return subscriptionInfo{
		Name: s.Name(), Select: subscriptionSelect{f.Category, f.Types, f.Streams}, Strategy: f.Strategy, MessageTimeout: f.Timeout.String(),
		MaxRetry: f.MaxRetry, Buffer: f.Buffer, Position: position(in.Position), Last: position(in.Last),
		Claimed: in.Claimed, Waiting: in.Waiting, Parked: in.Parked, Consumers: in.Consumers, Stopped: in.Stopped,
	}
}

func getSubscription(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	in, err := s.Info(c.ctx)
	if err != nil {
		return err
	}
	lag, err := s.Lag(c.ctx, &in, maxLag)
	if err != nil {
		return err
	}
	out := infoOf(s, &in)
	out.Lag = &lag
	return c.answer(http.StatusOK, out)
}

func getSubscriptions(c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	names := []string{}
	for name, err := range claims.Names(c.ctx, s) {
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	return c.answer(http.StatusOK, map[string][]string{"subscriptions": names})
}

// deleteSubscription deletes a subscription with what it has parked.
func deleteSubscription(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	if err := s.Delete(c.ctx); err != nil {
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

func parseMessageTimeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > 24*time.Hour {
		return 0, invalid("messageTimeout is %.40q: want a duration from 1ms to 24h", text)
	}
	return d, nil
}

// check sets the defaults of a request, and returns how long it waits.
func (q *claimRequest) check() (wait time.Duration, err error) {
	if q.Wait != "" {
		if wait, err = time.ParseDuration(q.Wait); err != nil || wait < 0 || wait > maxClaimWait {
			return 0, invalid("wait is %.40q: want a duration up to %v", q.Wait, maxClaimWait)
		}
	}
	if q.Max == 0 {
		q.Max = 10
	}
	if q.Consumer == "" || len(q.Consumer) > maxConsumer {
		return 0, invalid("consumer has %d bytes: want the name of this consumer, 1 to %d bytes", len(q.Consumer), maxConsumer)
	}
	if q.Max < 1 || q.Max > maxBuffer {
		return 0, invalid("max is %d: want 1 to %d", q.Max, maxBuffer)
	}
	return wait, nil
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
	wait, err := q.check()
	if err != nil {
		return err
	}
	ctx, stop := c.untilStopped()
	defer stop()
	got, err := s.Claim(ctx, q.Consumer, q.Max, wait)
	if stopped := (*claims.StoppedError)(nil); errors.As(err, &stopped) {
		return withStatus(http.StatusConflict, err)
	}
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
		out = append(out, claimedEvent{got[i].Token.String(), got[i].Token.Attempt, recordedOf(&got[i].Recorded)})
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
func tokensOf(texts []string) ([]claims.Token, error) {
	if len(texts) == 0 || len(texts) > maxBuffer {
		return nil, invalid("there are %d tokens: want 1 to %d", len(texts), maxBuffer)
	}
	out := make([]claims.Token, len(texts))
	for i, text := range texts {
		var err error
		if out[i], err = claims.ParseToken(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// staleTokens is the answer to tokens of older attempts.
func staleTokens(stale []claims.Token) error {
	return refuse(http.StatusConflict, mainstem.KindInvalid, "%d tokens are of older attempts, the first %s: the events were handed out again, or the subscription was reset; nothing was confirmed", len(stale), stale[0])
}

func postAck(c *call) error {
	var q ackRequest
	if _, err := c.readJSON(&q); err != nil {
		return err
	}
	return c.endClaims(q.Tokens, func(*claims.Subscription, *mainstem.Batch, *claims.State, []claims.Entry) {})
}

// endClaims ends the claims of tokens, and does something with their entries in the same commit.
func (c *call) endClaims(texts []string, do func(s *claims.Subscription, b *mainstem.Batch, state *claims.State, ended []claims.Entry)) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	tokens, err := tokensOf(texts)
	if err != nil {
		return err
	}
	_, err = s.Change(c.ctx, func(b *mainstem.Batch, state *claims.State) error {
		ended, stale := state.Resolve(tokens)
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
	if len(q.Reason) > claims.MaxReason {
		return invalid("reason has %d bytes: the limit is %d", len(q.Reason), claims.MaxReason)
	}
	now := time.Now()
	var do func(s *claims.Subscription, b *mainstem.Batch, state *claims.State, ended []claims.Entry)
	switch q.Action {
	case "retry":
		do = func(s *claims.Subscription, b *mainstem.Batch, state *claims.State, ended []claims.Entry) {
			s.Park(b, state.PutBack(ended), q.Reason, now)
		}
	case "park":
		do = func(s *claims.Subscription, b *mainstem.Batch, _ *claims.State, ended []claims.Entry) {
			s.Park(b, ended, q.Reason, now)
		}
	case "skip":
		do = func(*claims.Subscription, *mainstem.Batch, *claims.State, []claims.Entry) {}
	case "stop":
		do = func(s *claims.Subscription, b *mainstem.Batch, state *claims.State, ended []claims.Entry) {
			s.Park(b, state.PutBack(ended), q.Reason, now)
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
	if _, _, err := s.Load(c.ctx); err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	last, err := c.number("after")
	if err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	var next map[string]any
	for e, err := range s.ParkedAfter(c.ctx, mainstem.Position(last)) {
		if err != nil {
			return err
		}
		more, err := p.add(e, len(e.Reason)+len(e.Stream)+128)
		if err != nil {
			return err
		}
		if !more {
			next = map[string]any{"next": position(last)}
			break
		}
		last = uint64(e.Position)
	}
	return p.send("parked", next)
}

func postRetryParked(c *call) error {
	s, err := c.subscription()
	if err != nil {
		return err
	}
	n, left, err := s.Retry(c.ctx)
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
	if err := s.Reset(c.ctx, mainstem.Position(at)); err != nil {
		return err
	}
	return c.describeSubscription(s)
}
