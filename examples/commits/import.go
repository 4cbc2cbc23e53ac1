package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/topic"
)

// The names of the views, and the key of the number of the last line, all on one log.
const (
	storeName    = "commits"
	countsName   = "commits/per-directory"
	progressName = "commits/progress"
	topicName    = "commits"
	progressKey  = "lines"
)

// commit is one line of the input.
type commit struct {
	ID     string   `json:"id"`
	Time   int64    `json:"time"` // unix seconds
	Author string   `json:"author"`
	Dirs   []string `json:"dirs"`
}

// importer has the views that a line is written to.
type importer struct {
	log      mainstem.Log
	events   *event.Store
	counts   *kv.Bucket[int64]
	progress *kv.Bucket[int64]
	topics   *topic.Catalog
	topic    *topic.Topic
}

func newImporter(ctx context.Context, log mainstem.Log) (*importer, error) {
	im := &importer{log: log}
	var err error
	if im.events, err = event.Open(log, storeName, nil); err != nil {
		return nil, err
	}
	if im.counts, err = kv.Open[int64](log, countsName, nil); err != nil {
		return nil, err
	}
	if im.progress, err = kv.Open[int64](log, progressName, nil); err != nil {
		return nil, err
	}
	if im.topics, err = topic.Open(log, nil); err != nil {
		return nil, err
	}
	// The messages have the times of their commits, years ago, so they must not expire.
	keepAll := topic.Config{topic.RetentionMs: "-1"}
	im.topic, err = im.topics.Ensure(ctx, topicName, topic.Spec{Partitions: 4, Config: keepAll})
	if err != nil {
		im.close()
		return nil, err
	}
	return im, nil
}

func (im *importer) close() { im.topics.Close() }

// importAll imports the lines of r that are not imported yet.
func (im *importer) importAll(ctx context.Context, r io.Reader) error {
	var done kv.Entry[int64]
	err := persist(ctx, func() (err error) {
		done, err = im.progress.Get(ctx, progressKey)
		return err
	})
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := int64(1); lines.Scan(); n++ {
		if n <= done.Value {
			continue
		}
		var c commit
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := im.importLine(ctx, n, c, bytes.Clone(lines.Bytes())); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// importLine commits one line, and tries again while the log is unavailable. The batch has an ID:
// if an attempt was committed although its answer was lost, the next one writes nothing.
func (im *importer) importLine(ctx context.Context, n int64, c commit, line []byte) error {
	return persist(ctx, func() error {
		b, err := im.batch(ctx, n, c, line)
		if err != nil {
			return err
		}
		_, err = im.log.Commit(ctx, b)
		return err
	})
}

// persist calls f until it does not fail with Unavailable.
func persist(ctx context.Context, f func() error) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f()
		if err == nil || !errors.Is(err, mainstem.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// batch builds the batch of line n.
func (im *importer) batch(ctx context.Context, n int64, c commit, line []byte) (*mainstem.Batch, error) {
	b := mainstem.NewBatch()
	b.ID = "commits-" + c.ID

	im.events.AppendTo(b, "author-"+c.Author, event.AnyVersion, []event.Event{{Type: "commit", Data: line}})
	im.topic.PublishTo(b, topic.Record{Key: []byte(c.Author), Value: line, Time: time.Unix(c.Time, 0)})
	im.progress.PutTo(b, progressKey, n)
	for _, dir := range c.Dirs {
		e, err := im.counts.Get(ctx, dir)
		switch {
		case errors.Is(err, mainstem.ErrNotFound):
			im.counts.PutTo(b, dir, 1, kv.IfAbsent())
		case err != nil:
			return nil, err
		default:
			im.counts.PutTo(b, dir, e.Value+1, kv.IfRevision(e.Revision))
		}
	}
	return b, nil
}

// result is the content of the three views in numbers.
type result struct {
	Events      int
	Streams     map[string]int   // events by stream
	Directories map[string]int64 // commits by directory
	Messages    int
	Keys        map[string]int // messages by key
}

// answers reads the three views.
func answers(ctx context.Context, log mainstem.Log) (result, error) {
	r := result{Streams: map[string]int{}, Directories: map[string]int64{}, Keys: map[string]int{}}
	im, err := newImporter(ctx, log)
	if err != nil {
		return r, err
	}
	defer im.close()
	for ev, err := range im.events.Feed(ctx, nil) {
		if err != nil {
			return r, err
		}
		r.Events++
		r.Streams[ev.Stream]++
	}
	for e, err := range im.counts.List(ctx, nil) {
		if err != nil {
			return r, err
		}
		r.Directories[e.Key] = e.Value
	}
	for m, err := range im.topic.Consume(ctx, nil) {
		if err != nil {
			return r, err
		}
		r.Messages++
		r.Keys[string(m.Key)]++
	}
	return r, nil
}
