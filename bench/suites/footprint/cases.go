package footprint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// value returns what a key has after a round of writes: bytes that do not compress.
func value(key, round int) []byte {
	r := rand.New(rand.NewPCG(uint64(key), uint64(round)))
	b := make([]byte, ValueSize)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// subject is a running server, and what was given to it.
type subject struct {
	Server
	closers  []Connection
	each     int // messages in each of the partitions of the topic, if it was filled
	keys     int
	round    int
	resident uint64
}

// begin builds and starts a server that has shown that it works.
func begin(ctx context.Context, f Factory, o Options) (*subject, error) {
	program, err := f.Build(ctx)
	if err != nil {
		return nil, err
	}
	s, err := f.Start(ctx, program, o)
	if err != nil {
		return nil, err
	}
	if err := answers(ctx, s, 0); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &subject{Server: s}, nil
}

// firstKey is the key by which a server shows that it works: none that is put.
const firstKey = 1 << 30

// answers writes a value and reads it back.
func answers(ctx context.Context, s Server, round int) error {
	want := value(firstKey, round)
	if err := s.Put(ctx, firstKey, [][]byte{want}); err != nil {
		return err
	}
	return holds(ctx, s, firstKey, want)
}

func holds(ctx context.Context, s Server, key int, want []byte) error {
	got, err := s.Get(ctx, key)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("key %d is %.40q, want %.40q", key, got, want)
	}
	return err
}

// Close closes all connections and stops the server.
func (s *subject) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, s.Stop())...)
}

// putBatch is how many keys are put at once.
const putBatch = 1_000

// put puts a round of values under the first n keys.
func (s *subject) put(ctx context.Context, n int) error {
	s.keys = n
	s.round++
	values := make([][]byte, 0, putBatch)
	for first := 0; first < n; first += putBatch {
		values = values[:0]
		for k := first; k < min(first+putBatch, n); k++ {
			values = append(values, value(k, s.round))
		}
		if err := s.Put(ctx, first, values); err != nil {
			return err
		}
	}
	return nil
}

func putKeys(n int) func(*subject, context.Context) error {
	return func(s *subject, ctx context.Context) error { return s.put(ctx, n) }
}

func (s *subject) connect(ctx context.Context) error {
	for range connections {
		c, err := s.Connect(ctx)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, c)
	}
	return nil
}

// topic is the name of the topic that is filled.
const topic = "bench"

func (s *subject) partition(ctx context.Context) error {
	s.each++
	return s.Fill(ctx, topic, partitions, 1)
}

// check asks the server for what it was given.
func (s *subject) check(ctx context.Context) error {
	for _, c := range s.closers {
		if err := c.Ask(); err != nil {
			return err
		}
	}
	if s.each > 0 {
		if err := s.ends(ctx, partitions, s.each); err != nil {
			return err
		}
	}
	if err := s.scan(ctx); err != nil {
		return err
	}
	return answers(ctx, s, s.round+1)
}

// scan compares every key with what was put last.
func (s *subject) scan(ctx context.Context) error {
	seen := make([]bool, s.keys)
	n := 0
	err := s.Scan(ctx, func(key int, got []byte) error {
		switch {
		case key == firstKey:
		case key < 0 || key >= s.keys || seen[key]:
			return fmt.Errorf("key %d was not put, or is there twice", key)
		case !bytes.Equal(got, value(key, s.round)):
			return fmt.Errorf("key %d has not what was put last", key)
		default:
			seen[key] = true
			n++
		}
		return nil
	})
	if err == nil && n != s.keys {
		err = fmt.Errorf("the server has %d of %d keys", n, s.keys)
	}
	return err
}

// ends fails unless the topic has so many partitions with so many messages each.
func (s *subject) ends(ctx context.Context, partitions, each int) error {
	ends, err := s.Ends(ctx, topic)
	if err != nil {
		return err
	}
	if len(ends) != partitions {
		return fmt.Errorf("the topic has %d partitions, want %d", len(ends), partitions)
	}
	for p, n := range ends {
		if n != int64(each) {
			return fmt.Errorf("partition %d has %d messages, want %d", p, n, each)
		}
	}
	return nil
}

func startEntry(f Factory, name, about string, keys int) suite.Entry {
	return suite.Entry{
		Case: name, About: about, Op: "start", Fixed: 1, Fresh: true,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			program, err := f.Build(ctx)
			if err != nil {
				return nil, err
			}
			var running []Server
			dir := func(i int) string { return filepath.Join(env.Dir, strconv.Itoa(i)) }
			return &suite.Round{
				Prepare: func(ctx context.Context, n int) error {
					for i := range n {
						if err := seed(ctx, f, dir(i), keys); err != nil {
							return err
						}
					}
					return nil
				},
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
						s, err := f.Start(ctx, program, Options{Dir: dir(i)})
						if err != nil {
							return err
						}
						running = append(running, s)
						return answers(ctx, s, 1)
					})
				},
				Check: func(ctx context.Context) error {
					for _, s := range running {
						if err := (&subject{Server: s, keys: keys, round: 1}).check(ctx); err != nil {
							return err
						}
					}
					return nil
				},
				Close: func() error {
					var errs []error
					for _, s := range running {
						errs = append(errs, s.Stop())
					}
					return errors.Join(errs...)
				},
			}, nil
		},
	}
}

// seed lets a server put keys into a directory and stop.
func seed(ctx context.Context, f Factory, dir string, keys int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil || keys == 0 {
		return err
	}
	s, err := begin(ctx, f, Options{Dir: dir})
	if err != nil {
		return err
	}
	return errors.Join(s.put(ctx, keys), s.Close())
}

// memoryEntry is the resident memory after some work, which is what an operation is.
func memoryEntry(f Factory, name, about string, work func(*subject, context.Context) error) suite.Entry {
	return suite.Entry{
		Case: name, About: about, Primary: "resident", Fixed: 1, Fresh: true,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			s, err := begin(ctx, f, Options{Dir: env.Dir})
			if err != nil {
				return nil, err
			}
			return &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error { return work(s, ctx) })
				},
				Check: func(ctx context.Context) (err error) {
					if s.resident, err = resident(ctx, s.PID()); err != nil {
						return err
					}
					return s.check(ctx)
				},
				Metrics: func(context.Context) ([]suite.Metric, error) {
					return []suite.Metric{{Name: "resident", Unit: "B", Value: float64(s.resident)}}, nil
				},
				Close: s.Close,
			}, nil
		},
	}
}

func pausesEntry(f Factory) suite.Entry {
	return suite.Entry{
		Case: "pauses", About: "store messages of 1 KiB in batches of 100, and look at the stops of the world meanwhile",
		Op: "message", Primary: "max", Fixed: loadSize, Fresh: true, BytesPerOp: MessageSize,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			s, err := begin(ctx, f, Options{Dir: env.Dir, Pauses: true})
			if err != nil {
				return nil, err
			}
			sent := 0
			var pauses []time.Duration
			return &suite.Round{
				Run: func(ctx context.Context, n int, _ *suite.Recorder) error {
					sent += n
					return s.Fill(ctx, topic, 1, n)
				},
				Check: func(ctx context.Context) error {
					if pauses = s.Pauses(); len(pauses) == 0 {
						return errors.New("no pause was seen: the collector did not run, or did not say so")
					}
					return s.ends(ctx, 1, sent)
				},
				Metrics: func(context.Context) ([]suite.Metric, error) { return pauseMetrics(pauses), nil },
				Close:   s.Close,
			}, nil
		},
	}
}

func binaryEntry(f Factory) suite.Entry {
	return suite.Entry{
		Case: "binary", Transport: suite.Unasked, About: "the size of the program", Primary: "size", Fixed: 1, Fresh: true,
		Start: func(ctx context.Context, _ *suite.Env) (*suite.Round, error) {
			program, err := f.Build(ctx)
			if err != nil {
				return nil, err
			}
			var size int64
			return &suite.Round{
				Run: func(context.Context, int, *suite.Recorder) error {
					info, err := os.Stat(program)
					if err == nil {
						size = info.Size()
					}
					return err
				},
				Metrics: func(context.Context) ([]suite.Metric, error) {
					return []suite.Metric{{Name: "size", Unit: "B", Value: float64(size)}}, nil
				},
			}, nil
		},
	}
}

func diskEntry(f Factory) suite.Entry {
	return suite.Entry{
		Case: "disk", About: fmt.Sprintf("put %d values of %d bytes %d times over; the metric is what is on disk for each when compaction rests", diskKeys, ValueSize, diskRounds),
		Op: "round", Primary: "disk", Fixed: diskRounds, Fresh: true,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			s, err := begin(ctx, f, Options{Dir: env.Dir, Compact: true})
			if err != nil {
				return nil, err
			}
			var size int64
			return &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error { return s.put(ctx, diskKeys) })
				},
				Check: func(ctx context.Context) (err error) {
					if size, err = stableSize(ctx, env.Dir); err != nil {
						return err
					}
					return s.check(ctx)
				},
				Metrics: func(context.Context) ([]suite.Metric, error) {
					return []suite.Metric{{Name: "disk", Unit: "B/record", Value: float64(size) / diskKeys}}, nil
				},
				Close: s.Close,
			}, nil
		},
	}
}
