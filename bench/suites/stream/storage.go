package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The sizes of the storage workloads.
const (
	readMessages = 1_000 // in the log that is read
	readBytes    = 1_024 // of keys and values, by one read
	lookups      = 10_000
	tableKeys    = 10_000
	scanKeys     = 1_000

	smallKey, smallValue = 3, 5 // bytes of the smallest messages
	checkEvery           = 1 << 20
)

// numbered makes messages of a fixed size whose value ends with their number, as
// short as a few bytes: number modulo ten to the power of the value's size.
type numbered struct {
	ms   []Message
	next int64
}

func newNumbered(batch, key, value int) *numbered {
	s := &numbered{ms: make([]Message, batch)}
	for i := range s.ms {
		s.ms[i] = Message{Key: bytes.Repeat([]byte{'k'}, key), Value: body(value)}
		if key == 0 {
			s.ms[i].Key = nil
		}
	}
	return s
}

// digits is how many digits of its number a value ends with.
func digits(value int) int { return min(value, 10) }

// stamp writes a number into the end of a value.
func stamp(value []byte, number int64) {
	n := len(value)
	for i := range digits(n) {
		value[n-1-i] = byte('0' + number%10)
		number /= 10
	}
}

func (s *numbered) batch() []Message {
	for i := range s.ms {
		stamp(s.ms[i].Value, s.next)
		s.next++
	}
	return s.ms
}

// is fails unless m is the message of that number. want is memory to compare with.
func (s *numbered) is(m Message, number int64, want []byte) error {
	stamp(want, number)
	if !bytes.Equal(m.Value, want) || !bytes.Equal(m.Key, s.ms[0].Key) {
		return fmt.Errorf("message %d is %q with key %q, want %q with %q", number, m.Value, m.Key, want, s.ms[0].Key)
	}
	return nil
}

func logEntries(f Factory) []suite.Entry {
	entries := []suite.Entry{
		appendEntry(f, "storage/append/8b", 1, smallKey, smallValue),
		appendEntry(f, "storage/append/5x10b", 5, 4, 6),
		appendEntry(f, "storage/append/39b", 1, 0, 39),
		appendEntry(f, "storage/append/100x100b", batchSize, 0, 100),
	}
	return append(entries,
		readEntry(f, "storage/read", "read messages until they are 1,024 bytes together, 128 of 8 bytes, of a thousand", readMessages, readBytes),
		readEntry(f, "storage/index", "read the one message of a number, of ten thousand (a thousand in a quick run)", lookups, 1),
	)
}

func appendEntry(f Factory, name string, batch, key, value int) suite.Entry {
	return suite.Entry{
		Case: name, About: fmt.Sprintf("append %d messages of %d bytes", batch, key+value),
		Op: "message", Items: batch, BytesPerOp: int64(batch * (key + value)),
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			log, err := f.Log(ctx, env, env.Dir)
			if err != nil {
				return nil, err
			}
			data := newNumbered(batch, key, value)
			var checked int64
			return &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error {
						return log.Append(ctx, data.batch()...)
					})
				},
				Check: func(ctx context.Context) error {
					err := readBack(ctx, log, data, checked)
					checked = data.next
					return err
				},
				Close: log.Close,
			}, nil
		},
	}
}

// readBack compares all messages from a number on, and that there are no more.
func readBack(ctx context.Context, log Log, data *numbered, from int64) error {
	want := body(len(data.ms[0].Value))
	for next := from; ; {
		began := next
		err := log.Read(ctx, next, checkEvery, func(m Message) error {
			err := data.is(m, next, want)
			next++
			return err
		})
		if err != nil {
			return err
		}
		if next == began {
			if next != data.next {
				return fmt.Errorf("the log has %d messages, %d were appended", next, data.next)
			}
			return nil
		}
	}
}

// fewer is how many of so many messages or keys are stored beforehand: a thousand in
// a quick run, because each takes a sync of its own.
func fewer(env *suite.Env, n int) int {
	if env.Quick {
		return min(n, readMessages)
	}
	return n
}

func readEntry(f Factory, name, about string, messages, most int) suite.Entry {
	return suite.Entry{
		Case: name, About: about, Op: "read",
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			log, err := f.Log(ctx, env, env.Dir)
			if err != nil {
				return nil, err
			}
			r := &reading{log: log, most: most, messages: int64(fewer(env, messages)), data: newNumbered(1, smallKey, smallValue)}
			if err := r.fill(ctx); err != nil {
				return nil, errors.Join(err, log.Close())
			}
			return &suite.Round{Run: r.run, Check: r.check, Close: log.Close}, nil
		},
	}
}

// reading is a log that is read.
type reading struct {
	log      Log
	most     int
	messages int64
	data     *numbered
}

// fill appends the messages one by one, as small messages come.
func (r *reading) fill(ctx context.Context) error {
	for range r.messages {
		if err := r.log.Append(ctx, r.data.batch()...); err != nil {
			return err
		}
	}
	return nil
}

// count is how many messages a read from a number on returns.
func (r *reading) count(from int64) int64 {
	each := int64(smallKey + smallValue)
	return min((int64(r.most)+each-1)/each, r.messages-from)
}

func (r *reading) run(ctx context.Context, n int, rec *suite.Recorder) error {
	var got int64
	var last byte
	f := func(m Message) error {
		got++
		last = m.Value[len(m.Value)-1]
		return nil
	}
	return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
		from := int64(i) % r.messages
		got = 0
		if err := r.log.Read(ctx, from, r.most, f); err != nil {
			return err
		}
		if want := r.count(from); got != want || last != byte('0'+(from+want-1)%10) {
			return fmt.Errorf("read %d messages from %d on, the last ends with %q; want %d", got, from, last, want)
		}
		return nil
	})
}

// check compares every byte of every read.
func (r *reading) check(ctx context.Context) error {
	want := body(smallValue)
	for from := range r.messages {
		next := from
		err := r.log.Read(ctx, from, r.most, func(m Message) error {
			err := r.data.is(m, next, want)
			next++
			return err
		})
		if err == nil && next-from != r.count(from) {
			err = fmt.Errorf("read %d messages from %d on, want %d", next-from, from, r.count(from))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
