package natslog

import (
	"container/list"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// cache keeps the payloads of messages read or written lately.
type cache struct {
	limit int64
	mu    struct {
		sync.Mutex
		bySeq map[uint64]*list.Element
		used  list.List // of cached, the newest use first
		bytes int64
	}
}

type cached struct {
	seq     uint64
	payload []byte
}

// cachedRoom is what an entry takes beside its payload, about.
const cachedRoom = 160

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	c.mu.bySeq = map[uint64]*list.Element{}
	return c
}

func (c *cache) get(seq uint64) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.bySeq[seq]
	if e == nil {
		return nil, false
	}
	c.mu.used.MoveToFront(e)
	return e.Value.(*cached).payload, true
}

func (c *cache) put(seq uint64, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.bySeq[seq] != nil || int64(len(payload)) > c.limit {
		return
	}
	c.mu.bySeq[seq] = c.mu.used.PushFront(&cached{seq, payload})
	c.mu.bytes += int64(len(payload)) + cachedRoom
	for c.mu.bytes > c.limit {
		c.dropLocked(c.mu.used.Back())
	}
}

func (c *cache) dropLocked(e *list.Element) {
	old := c.mu.used.Remove(e).(*cached)
	delete(c.mu.bySeq, old.seq)
	c.mu.bytes -= int64(len(old.payload)) + cachedRoom
}

// drop forgets a message.
func (c *cache) drop(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.mu.bySeq[seq]; e != nil {
		c.dropLocked(e)
	}
}

// errGone says that a message is not in the stream (any more).
var errGone = errors.New("the message is not in the stream")

// How many messages are asked for at once.
const (
	fetchParallel = 16
	fetchBatch    = 256
	fetchBytes    = 4 << 20
)

// bodies reads the bodies of records, whose messages may come from the cache. A
// body is nil if its message is gone.
func (l *Log) bodies(ctx context.Context, records []*record) ([]*format.Body, error) {
	payloads := make(map[uint64][]byte, len(records))
	var missing []uint64
	for _, r := range records {
		if _, ok := payloads[r.seq]; ok {
			continue
		}
		p, ok := l.cache.get(r.seq)
		payloads[r.seq] = p
		if !ok {
			missing = append(missing, r.seq)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing) // neighbours come with one request
		if err := l.fetch(ctx, missing, payloads); err != nil {
			return nil, err
		}
	}
	out := make([]*format.Body, len(records))
	for i, r := range records {
		p := payloads[r.seq]
		if p == nil {
			continue
		}
		b, err := r.decode(p)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// decode finds the body of r in the payload of its message.
func (r *record) decode(payload []byte) (*format.Body, error) {
	if uint64(r.off)+uint64(r.len) > uint64(len(payload)) {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "read", "message %d has %d bytes, a record in it ends at %d", r.seq, len(payload), uint64(r.off)+uint64(r.len))
	}
	b, err := format.DecodeBody(payload[r.off : r.off+r.len])
	if err != nil || b.Version != r.version || b.Position != r.pos {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "read", "message %d does not hold version %d of key %.64q", r.seq, r.version, r.key.name)
	}
	return &b, nil
}

// fetch reads messages into payloads. Runs of neighbours come with one request each,
// the others one by one, several at a time.
func (l *Log) fetch(ctx context.Context, seqs []uint64, payloads map[uint64][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	single := seqs[:0:0]
	for len(seqs) > 0 {
		n := neighbours(seqs)
		if n < 3 {
			single = append(single, seqs[:n]...)
		} else if err := l.fetchRun(ctx, seqs[:n], payloads); err != nil {
			return err
		}
		seqs = seqs[n:]
	}
	if len(single) == 1 {
		p, err := l.get(ctx, single[0])
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
		payloads[single[0]] = p
		return nil
	}
	return l.fetchEach(ctx, single, payloads)
}

// neighbours returns how many of seqs, which is not empty, are close enough together
// for one request.
func neighbours(seqs []uint64) int {
	n := 1
	for n < len(seqs) && n < fetchBatch && seqs[n] > seqs[n-1] && seqs[n]-seqs[n-1] <= 2 {
		n++
	}
	return n
}

// fetchEach gets messages one by one.
func (l *Log) fetchEach(ctx context.Context, seqs []uint64, payloads map[uint64][]byte) error {
	var mu sync.Mutex
	var first error
	next := make(chan uint64, len(seqs))
	for _, s := range seqs {
		next <- s
	}
	close(next)
	var wg sync.WaitGroup
	for range min(fetchParallel, len(seqs)) {
		wg.Go(func() {
			for seq := range next {
				p, err := l.get(ctx, seq)
				mu.Lock()
				if err != nil && !errors.Is(err, errGone) && first == nil {
					first = err
				}
				payloads[seq] = p
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return first
}

// get reads one message, from any server that holds the stream; if that server does
// not know it, perhaps not yet, from the leader.
func (l *Log) get(ctx context.Context, seq uint64) ([]byte, error) {
	request := []byte(`{"seq":` + strconv.FormatUint(seq, 10) + `}`)
	for {
		try, cancel := l.try(ctx)
		reply, err := l.conn.RequestWithContext(try, l.api+"DIRECT.GET."+l.opts.Stream, request)
		cancel()
		if err == nil {
			switch status := reply.Header.Get("Status"); status {
			case "":
				p := payloadOf(reply)
				l.cache.put(seq, p)
				return p, nil
			case "404":
				return l.getFromLeader(ctx, seq)
			default:
				return nil, fmt.Errorf("direct get of message %d: status %s %s", seq, status, reply.Header.Get("Description"))
			}
		}
		if ctx.Err() != nil || !l.pause(retryPause) {
			return nil, err
		}
	}
}

// payloadOf returns the payload of msg, never nil.
func payloadOf(msg *nats.Msg) []byte {
	if msg.Data == nil {
		return []byte{}
	}
	return msg.Data
}

// getFromLeader reads one message from the leader of the stream, which knows.
func (l *Log) getFromLeader(ctx context.Context, seq uint64) ([]byte, error) {
	for {
		msg, err := l.askLeader(ctx, seq)
		if err == nil {
			p, err := msg.payload()
			if err == nil {
				l.cache.put(seq, p)
			}
			return p, err
		}
		var refusal *messageError
		if errors.Is(err, errGone) || errors.As(err, &refusal) && isInvalid(refusal.status, refusal.code) {
			return nil, err
		}
		if ctx.Err() != nil || !l.pause(retryPause) {
			return nil, err
		}
	}
}

// storedMessage is how the leader answers a request for a message.
type storedMessage struct {
	seq  uint64
	Head string `json:"hdrs"` // in base64, as Data
	Data string `json:"data"`
}

func (m *storedMessage) payload() ([]byte, error) {
	p, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil {
		return nil, fmt.Errorf("get of message %d: %w", m.seq, err)
	}
	return p, nil
}

func (m *storedMessage) header() (nats.Header, error) {
	raw, err := base64.StdEncoding.DecodeString(m.Head)
	if err != nil {
		return nil, fmt.Errorf("get of message %d: %w", m.seq, err)
	}
	return nats.DecodeHeadersMsg(raw)
}

// messageError is an answer of the leader that is no message.
type messageError struct {
	seq          uint64
	status, code int
	text         string
}

func (e *messageError) Error() string {
	return fmt.Sprintf("get of message %d: %s (%d)", e.seq, e.text, e.code)
}

// askLeader asks the leader of the stream once for a message. It returns errGone if it
// is not there.
func (l *Log) askLeader(ctx context.Context, seq uint64) (*storedMessage, error) {
	ctx, cancel := l.try(ctx)
	defer cancel()
	reply, err := l.conn.RequestWithContext(ctx, l.api+"STREAM.MSG.GET."+l.opts.Stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error *struct {
			Code        int    `json:"code"`
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Message storedMessage `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("get of message %d: %w", seq, err)
	}
	switch e := answer.Error; {
	case e == nil:
		answer.Message.seq = seq
		return &answer.Message, nil
	case e.Code == http.StatusNotFound:
		return nil, errGone
	default:
		return nil, &messageError{seq, e.Code, e.ErrCode, e.Description}
	}
}

// fetchRun reads neighbouring messages with one batched direct get, and what did not
// come with it one by one.
func (l *Log) fetchRun(ctx context.Context, seqs []uint64, payloads map[uint64][]byte) error {
	wanted := make(map[uint64]bool, len(seqs))
	for _, s := range seqs {
		wanted[s] = true
	}
	inbox := l.conn.NewInbox()
	sub, err := l.conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string]uint64{"seq": seqs[0], "batch": seqs[len(seqs)-1] - seqs[0] + 1, "max_bytes": fetchBytes})
	if err != nil {
		return err
	}
	if err := l.conn.PublishRequest(l.api+"DIRECT.GET."+l.opts.Stream, inbox, request); err != nil {
		return err
	}
	for len(wanted) > 0 {
		try, cancel := l.try(ctx)
		msg, err := sub.NextMsgWithContext(try)
		cancel()
		if err != nil || msg.Header.Get("Status") != "" {
			break // the end, or no answer: the rest is asked for again
		}
		seq, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil || seq > seqs[len(seqs)-1] {
			break
		}
		if wanted[seq] {
			delete(wanted, seq)
			payloads[seq] = payloadOf(msg)
			l.cache.put(seq, payloads[seq])
		}
	}
	rest := make([]uint64, 0, len(wanted))
	for s := range wanted {
		rest = append(rest, s)
	}
	return l.fetchEach(ctx, rest, payloads)
}
