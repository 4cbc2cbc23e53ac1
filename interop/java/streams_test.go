package java_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// TestStreamsCountExactly counts words with Kafka Streams at exactly_once_v2 and kills
// the JVM twice. Each word writes its new count, so that every word has to say 1, 2, 3
// and so on to those who read committed records: a record done twice or lost shows.
func TestStreamsCountExactly(t *testing.T) {
	needed(t)
	versions, lines := []string{java.Kafka41}, 1000
	if *long {
		versions, lines = []string{java.Kafka36, java.Kafka41}, 20_000
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			broker := target.Mainstem(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+lines/5000)*patience)
			defer cancel()
			countWords(ctx, t, broker, version, lines)
		})
	}
}

// The topics of the word count.
const (
	wordsIn  = "lines"
	wordsOut = "counts"
)

// vocabulary is how many words there are; a line has each once.
const vocabulary = 5

func countWords(ctx context.Context, t *testing.T, broker *target.Process, version string, lines int) {
	judge := kafka.NewJudge(t, broker.Kafka)
	judge.CreateTopic(ctx, wordsIn, 2)
	judge.CreateTopic(ctx, wordsOut, 2)
	state := t.TempDir()
	var running *java.Program
	start := func() {
		var err error
		running, err = java.Start(ctx, version, "mainstem.WordCount", broker.Kafka, "counting", wordsIn, wordsOut, state)
		must(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Streams said:\n%s", running.Output())
		}
		running.Kill()
	})
	start()
	for third := range 3 {
		produceLines(ctx, judge, lines*third/3, lines*(third+1)/3)
		if third == 2 {
			break
		}
		// Killed in the middle of this third.
		done := int64(vocabulary * lines * (2*third + 1) / 6)
		must(t, eventually(ctx, func() error {
			if end := judge.End(ctx, wordsOut); end < done {
				return fmt.Errorf("%d counts, want %d", end, done)
			}
			return nil
		}))
		running.Kill()
		start()
	}
	must(t, eventually(ctx, func() error { return judgeCounts(judge.ReadAll(ctx, wordsOut, true), lines) }))
}

func produceLines(ctx context.Context, judge *kafka.Judge, from, to int) {
	for at := from; at < to; at += 100 {
		var records []kafka.Record
		for i := at; i < min(at+100, to); i++ {
			words := make([]string, vocabulary)
			for w := range words {
				words[w] = fmt.Sprintf("word%d", (i+w)%vocabulary)
			}
			records = append(records, kafka.Record{Partition: int32(i % 2), Value: []byte(strings.Join(words, " "))})
		}
		judge.Produce(ctx, wordsIn, records)
	}
}

// judgeCounts says what is missing from the counts, or wrong with them.
func judgeCounts(records []kafka.Record, lines int) error {
	last := map[string]int{}
	for _, r := range records {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return err
		}
		if n != last[string(r.Key)]+1 {
			return fmt.Errorf("%s has count %d after %d", r.Key, n, last[string(r.Key)])
		}
		last[string(r.Key)] = n
	}
	for w := range vocabulary {
		if word := fmt.Sprintf("word%d", w); last[word] != lines {
			return fmt.Errorf("%s was counted %d times, want %d", word, last[word], lines)
		}
	}
	return nil
}

// eventually asks again until f is satisfied or ctx ends.
func eventually(ctx context.Context, f func() error) error {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		err := f()
		if err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
