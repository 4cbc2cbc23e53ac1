package topiccmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/importer"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// produceFlags say what the records of topic produce are like.
type produceFlags struct {
	key         string
	separator   string
	partition   int32
	headers     []string
	compression string
	tombstone   bool
	maxLine     string

	withKey, withPartition bool // the flags were given
}

func (m commands) newProduce() *cobra.Command {
	var p produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [VALUE...]",
		Short: "Write records to a topic",
		Long: `Write records to a topic: one for each VALUE or, without VALUE, one for each line of
standard input. Records with equal keys go to the same partition.

With --key-separator, each line is KEY, separator, VALUE. A line without the separator
or over --max-line is reported by number and left out; then the exit status is 1. If it
is interrupted, it says from which line to go on.`,
		Example: `  mainstem topic produce orders --key 42 '{"total":17}'
  mainstem topic produce orders --key-separator : < orders.txt
  mainstem topic produce users --key 42 --tombstone
  tail -f access.log | mainstem topic produce access --compression zstd`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			p.withKey, p.withPartition = cmd.Flags().Changed("key"), cmd.Flags().Changed("partition")
			maker, err := p.parse(len(a) > 1)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				t, err := c.Topic(ctx, a[0])
				if err != nil {
					return cli.Hint(err, "create it with mainstem topic create "+a[0])
				}
				out, err := t.Producer(&maker.options)
				if err != nil {
					return err
				}
				return m.produce(ctx, a[0], out, maker, a[1:], p.tombstone)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.key, "key", "", "`key` of the records (default none)")
	f.StringVar(&p.separator, "key-separator", "", "`text` between key and value of a line")
	f.Int32Var(&p.partition, "partition", 0, "`number` of the partition (default by the key)")
	f.StringArrayVar(&p.headers, "header", nil, "`NAME=VALUE` of a header; may be repeated")
	f.StringVar(&p.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.BoolVar(&p.tombstone, "tombstone", false, "write one record that has the key and no value")
	f.StringVar(&p.maxLine, "max-line", "16MiB", "longest line, in `bytes`")
	cmd.MarkFlagsMutuallyExclusive("key", "key-separator")
	return cmd
}

// recordMaker turns values and lines into records.
type recordMaker struct {
	flags   *produceFlags
	headers []topic.Header
	options topic.ProducerOptions
	maxLine int
}

func (p *produceFlags) parse(values bool) (*recordMaker, error) {
	r := &recordMaker{flags: p}
	for _, h := range p.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, fmt.Errorf("--header %q: want NAME=VALUE", h)
		}
		r.headers = append(r.headers, topic.Header{Key: name, Value: []byte(value)})
	}
	var err error
	if r.options.Compression, err = recordbatch.ParseCodec(p.compression); err != nil {
		return nil, err
	}
	if p.withPartition {
		r.options.Partitioner = topic.ByPartition()
	}
	maxLine, err := server.ParseSize(p.maxLine)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--max-line: %w", err)
	case maxLine < 1 || maxLine > cli.MaxInput:
		return nil, fmt.Errorf("--max-line is %s: want 1 to %d bytes", p.maxLine, cli.MaxInput)
	case p.tombstone && (values || !p.withKey):
		return nil, errors.New("--tombstone needs --key, and no VALUE")
	case values && p.separator != "":
		return nil, errors.New("--key-separator is for lines of standard input: use --key with VALUE")
	}
	r.maxLine = int(maxLine)
	return r, nil
}

func (r *recordMaker) record(value []byte) topic.Record {
	rec := topic.Record{Partition: r.flags.partition, Value: value, Headers: r.headers}
	if r.flags.withKey {
		rec.Key = []byte(r.flags.key)
	}
	return rec
}

// line makes a record of a line, split at the separator if there is one.
func (r *recordMaker) line(text []byte) (topic.Record, error) {
	if r.flags.separator == "" {
		return r.record(text), nil
	}
	key, value, ok := bytes.Cut(text, []byte(r.flags.separator))
	if !ok {
		return topic.Record{}, fmt.Errorf("the line has no key separator %q", r.flags.separator)
	}
	rec := r.record(value)
	rec.Key = key
	return rec, nil
}

// produce writes values to the topic called name as they are given, or else what
// standard input holds.
func (m commands) produce(ctx context.Context, name string, p *topic.Producer, r *recordMaker, values []string, tombstone bool) error {
	var err error
	if len(values) == 0 && !tombstone {
		err = m.produceLines(ctx, name, p, r)
	} else {
		err = m.produceValues(ctx, name, p, r, values)
	}
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return err
}

func (m commands) produceValues(ctx context.Context, name string, p *topic.Producer, r *recordMaker, values []string) error {
	records := make([]topic.Record, 0, max(len(values), 1))
	for _, v := range values {
		records = append(records, r.record([]byte(v)))
	}
	if len(values) == 0 {
		records = append(records, r.record(nil))
	}
	sent, err := p.ProduceSync(ctx, records...)
	if err != nil {
		return err
	}
	for _, s := range sent {
		if err := m.printSent(name, s); err != nil {
			return err
		}
	}
	return nil
}

func (m commands) printSent(name string, s topic.Sent) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("topic", name).Add("partition", s.Partition).Add("offset", s.Offset))
	}
	return m.Line("partition", cli.Number(s.Partition), "offset", cli.Number(s.Offset))
}

// lineResults collects what became of lines; the producer's goroutine reports
// to it.
type lineResults struct {
	m     commands
	topic string
	meter *cli.Meter
	mu    struct {
		sync.Mutex
		written, bad, failed int64
		fatal                error // not about one line: the next would fail too
	}
}

func (l *lineResults) done(line int64, s topic.Sent, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.mu.written++
		l.meter.Lines(l.mu.written)
		if l.m.Flags.JSON {
			err = errors.Join(l.m.printSent(l.topic, s), l.m.Flush())
		}
	case importer.BlamesContent(err):
		l.badLocked(line, err)
		return
	default:
		l.mu.failed++
	}
	if l.mu.fatal == nil && err != nil {
		l.mu.fatal = fmt.Errorf("line %d: %w", line, err)
	}
}

// bad reports a line that never became a record.
func (l *lineResults) bad(line int64, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.badLocked(line, reason)
}

func (l *lineResults) badLocked(line int64, reason error) {
	l.mu.bad++
	l.meter.Above(func() { importer.PrintBadLine(l.m.Main, "", line, reason) })
}

func (l *lineResults) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.fatal
}

func (m commands) produceLines(ctx context.Context, name string, p *topic.Producer, r *recordMaker) error {
	results := &lineResults{m: m, topic: name}
	input := m.Stdin
	if !cli.IsTerminal(input) { // else a person types there
		results.meter = m.StartMeter("produce "+name, sizeOf(input))
	}
	if results.meter != nil {
		input = io.TeeReader(input, results.meter)
	}
	err := m.sendLines(ctx, p, input, r, results)
	_ = p.Flush(context.WithoutCancel(ctx)) // results has the errors of all lines
	if ferr := results.failed(); ferr != nil {
		err = ferr
	}
	results.meter.Finish()
	results.mu.Lock() // the producer has nothing left to report
	defer results.mu.Unlock()
	if !m.Flags.JSON {
		text := fmt.Sprintf("%d records", results.mu.written)
		if results.mu.bad > 0 {
			text += fmt.Sprintf(", %d bad lines", results.mu.bad)
		}
		if results.mu.failed > 0 {
			text += fmt.Sprintf(", %d failed", results.mu.failed)
		}
		if perr := m.Line(text); err == nil {
			err = perr
		}
	}
	if err == nil && results.mu.bad > 0 {
		return cli.ErrFailed
	}
	return err
}

// sendLines hands lines to the producer until the input or ctx ends, or nothing
// can be written any more: that is in results. A line that was handed over is sent,
// however ctx ends.
func (m commands) sendLines(ctx context.Context, p *topic.Producer, in io.Reader, r *recordMaker, results *lineResults) error {
	lines := rows.NewLines(in, r.maxLine)
	input := importer.ReadAhead(ctx, func() (line inputLine, err error) {
		line.number, line.text, err = lines.Next()
		return line, err
	})
	sending := context.WithoutCancel(ctx)
	next := int64(1)
	for results.failed() == nil {
		select {
		case <-ctx.Done():
			return &produceStopped{next: next, err: mainstem.Ended(ctx, "topic produce", time.Time{}, "the input")}
		case in := <-input:
			var bad *rows.LineError
			switch {
			case errors.Is(in.Err, io.EOF):
				return nil
			case errors.As(in.Err, &bad):
				results.bad(bad.Line, bad.Err)
				next = bad.Line + 1
				continue
			case in.Err != nil:
				return in.Err
			}
			next = in.Value.number + 1
			rec, err := r.line(in.Value.text)
			if err != nil {
				results.bad(in.Value.number, err)
				continue
			}
			p.Produce(sending, rec, func(s topic.Sent, err error) { results.done(in.Value.number, s, err) })
		}
	}
	return nil
}

// produceStopped is a topic produce that was interrupted, or ran out of time, before its input ended.
type produceStopped struct {
	next int64 // the first line that was not handed to the producer
	err  error
}

func (e *produceStopped) Error() string {
	return fmt.Sprintf("%v; the lines before line %d are done: go on from that line", e.err, e.next)
}

// Resumable implements [cli.Resumable].
func (e *produceStopped) Resumable() {}

func (e *produceStopped) Unwrap() error { return e.err }

// inputLine is one line of standard input.
type inputLine struct {
	number int64
	text   []byte
}

// sizeOf returns the bytes of a stream that is a file, 0 if nobody knows how many
// there are.
func sizeOf(stream any) int64 {
	if f, ok := stream.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}
