package logcmd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
)

// copyOptions are the flags of copy.
type copyOptions struct {
	from, to    string
	toTokenFile string
	space       string
	maxValue    string
	verifyOnly  bool
}

func (m commands) newCopy() *cobra.Command {
	var o copyOptions
	cmd := &cobra.Command{
		Use:   "copy --from LOG --to LOG",
		Short: "Move a whole log to another engine, or compare two logs",
		Long: `Copy every space and record of a log into another, new and empty one, whatever their
engines: directories, servers, all that --log takes. Versions, times, expiry and
order stay; positions may change. In the end both sides are compared record by record.

A copy that is interrupted, even killed, goes on when the same command is run again.
So does one whose source was written meanwhile: run it again to copy what is new and to
repair what was edited since. To move a log with a short break, copy it while it is
written, stop the writers, and run the copy once more.

If the two sides differ in the end, the first differences are shown and the exit
status is 1. The target remembers where its copy stands in the space ` + logcopy.Space + `.`,
		Example: `  mainstem copy --from ./mainstem-data --to http://10.0.0.7:8080 --to-token-file token
  mainstem copy --from http://127.0.0.1:8080 --to ./copy --json
  mainstem copy --from ./mainstem-data --to ./copy --verify-only`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if m.Flags.Log != "" {
				return cli.WrongUsage(cmd, errors.New("--log has no meaning here: name the logs with --from and --to"))
			}
			if o.from == o.to {
				return cli.WrongUsage(cmd, errors.New("--from and --to are the same log"))
			}
			ctx, cancel, err := m.Context(cmd)
			if err != nil {
				return err
			}
			defer cancel()
			return m.runCopy(ctx, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "the `log` to copy: a directory or http://HOST:PORT (required)")
	f.StringVar(&o.to, "to", "", "the `log` to copy into: new, or with a part of the copy (required)")
	f.StringVar(&o.toTokenFile, "to-token-file", "", "`file` with the bearer token of the target, if it is not that of the source")
	f.StringVar(&o.space, "space", "", "only spaces whose names start with this `text`")
	f.StringVar(&o.maxValue, "max-value", "", "largest value that a target in a directory takes, in `bytes` (default 16MiB)")
	f.BoolVar(&o.verifyOnly, "verify-only", false, "compare the two logs and change nothing")
	cli.Required(cmd, "from")
	cli.Required(cmd, "to")
	return cmd
}

// runCopy opens both logs, copies and closes them.
func (m commands) runCopy(ctx context.Context, o *copyOptions) (err error) {
	source, target, err := m.copySides(o)
	if err != nil {
		return err
	}
	from, err := server.OpenLog(ctx, o.from, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := server.OpenLog(ctx, o.to, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return m.copyLogs(ctx, from, to, o)
}

// copySides returns how source and target are opened.
func (m commands) copySides(o *copyOptions) (source, target *server.LogOptions, err error) {
	if source, err = m.LogOptions(); err != nil {
		return nil, nil, err
	}
	source.MustExist = true
	t := *source
	t.MustExist = o.verifyOnly
	if o.toTokenFile != "" {
		if t.Token, err = server.ReadToken(o.toTokenFile); err != nil {
			return nil, nil, cli.WrongConfig(err)
		}
	}
	if o.maxValue != "" {
		n, err := server.ParseSize(o.maxValue)
		if err != nil {
			return nil, nil, cli.WrongConfig(fmt.Errorf("--max-value: %w", err))
		}
		t.Limits.MaxValue = int(n)
		t.Limits.MaxBatchBytes = max(2*int(n), mainstem.DefaultMaxBatchBytes)
	}
	return source, &t, nil
}

func (m commands) copyLogs(ctx context.Context, from, to mainstem.Log, o *copyOptions) error {
	meter := m.StartMeter("copying", 0)
	c, err := logcopy.New(from, to, &logcopy.Options{
		Prefix: o.space, Keys: partitionKeys,
		OnProgress: func(p logcopy.Progress) { meter.Say(copyText(p)) },
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	var r logcopy.Report
	if o.verifyOnly {
		r, err = c.Verify(ctx)
	} else {
		r, err = c.Run(ctx)
	}
	meter.Finish()
	if err != nil {
		return m.copyStopped(ctx, &r, err, time.Since(begin))
	}
	if err := m.printCopy(o, &r, time.Since(begin)); err != nil {
		return err
	}
	if r.Different > 0 {
		return cli.ErrFailed
	}
	return nil
}

func copyText(p logcopy.Progress) string {
	what := "copying"
	if p.Phase == logcopy.Comparing {
		what = "comparing"
	}
	return fmt.Sprintf("%s  %s %3.0f%%  %d records  %s", what, cli.Bar(p.Share), 100*p.Share, p.Records, cli.SizeText(float64(p.Bytes)))
}

// copyStopped says how far a copy came that did not end, and how it goes on.
func (m commands) copyStopped(ctx context.Context, r *logcopy.Report, err error, took time.Duration) error {
	if r.Position == 0 || errors.Is(err, mainstem.ErrExists) {
		return err
	}
	if m.Flags.JSON {
		f := new(cli.Fields).Add("complete", false).Add("records", r.Records).Add("bytes", r.Bytes).
			Add("position", r.Position).Add("seconds", took.Seconds())
		return errors.Join(err, m.Object(f))
	}
	text := fmt.Sprintf("%d records copied, the target holds the source up to position %d", r.Records, r.Position)
	if ctx.Err() != nil || errors.Is(err, mainstem.ErrUnavailable) {
		text += ": run the same command again to go on"
	}
	return errors.Join(err, m.Line(text))
}

func (m commands) printCopy(o *copyOptions, r *logcopy.Report, took time.Duration) error {
	if m.Flags.JSON {
		return m.printCopyJSON(o, r, took)
	}
	took = took.Round(time.Millisecond)
	if !o.verifyOnly {
		text := fmt.Sprintf("copied %d records, %d bytes, in %d new spaces, up to position %d in %s (%.0f/s)",
			r.Records, r.Bytes, r.Spaces, r.Position, took, float64(r.Records)/took.Seconds())
		if r.Resumed {
			text += fmt.Sprintf("; repaired %d, dropped %d spaces", r.Repaired, r.Dropped)
		}
		if err := m.Line(text); err != nil {
			return err
		}
	}
	for _, note := range copyNotes(r) {
		if err := m.Line(note); err != nil {
			return err
		}
	}
	for _, d := range r.Differences {
		if err := m.Line("differs", cli.Printable(d.String())); err != nil {
			return err
		}
	}
	verdict := "the same"
	if r.Different > 0 {
		verdict = fmt.Sprintf("%d differences", r.Different)
	}
	v := &r.Verified
	return m.Line(fmt.Sprintf("compared %d spaces, %d keys, %d records, %d bytes: %s", v.Spaces, v.Keys, v.Records, v.Bytes, verdict))
}

// copyNotes says what a person should know about a copy besides the counts.
func copyNotes(r *logcopy.Report) (out []string) {
	note := func(n int64, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(r.ExpiryTombstones, "%d tombstones of expired records are tombstones of deletes in the target", r.ExpiryTombstones)
	note(r.Late, "%d records expired while they were copied, or were about to: those still live stand at the end of the target", r.Late)
	note(r.Later, "%d records have a later time than at the source, because others expired in the target meanwhile", r.Later)
	note(r.Hidden, "%d keys of spaces without feed are in no list, because their newest record was removed: their older records are not copied", r.Hidden)
	note(r.Moving, "%d keys were written at the source after they were copied: they were not compared", r.Moving)
	note(int64(r.Head)-int64(r.Position), "the source has moved on to position %d: run the same command again for what is new", r.Head)
	return out
}

func (m commands) printCopyJSON(o *copyOptions, r *logcopy.Report, took time.Duration) error {
	for _, d := range r.Differences {
		f := new(cli.Fields).Text("space", d.Space)
		if d.Key != nil {
			f.Bytes("key", d.Key)
		}
		cli.Opt(f, "version", d.Version)
		if err := m.Object(f.Add("difference", d.What)); err != nil {
			return err
		}
	}
	f := new(cli.Fields).Add("complete", true)
	if !o.verifyOnly {
		f.Add("resumed", r.Resumed).Add("spaces", r.Spaces).Add("records", r.Records).Add("bytes", r.Bytes).
			Add("repaired", r.Repaired).Add("dropped", r.Dropped)
	}
	v := &r.Verified
	f.Add("position", r.Position).Add("head", r.Head).Add("compared_spaces", v.Spaces).Add("compared_keys", v.Keys).
		Add("compared_records", v.Records).Add("compared_bytes", v.Bytes).Add("differences", r.Different)
	cli.Opt(f, "expiry_tombstones", r.ExpiryTombstones)
	cli.Opt(f, "late", r.Late)
	cli.Opt(f, "later", r.Later)
	cli.Opt(f, "hidden", r.Hidden)
	cli.Opt(f, "moving", r.Moving)
	return m.Object(f.Add("seconds", took.Seconds()))
}

// topicMetaKey holds the description of a topic in its space; see docs/format.md.
var topicMetaKey = []byte("\xffmeta")

// partitionKeys returns the partitions of a topic that hold no record: their offsets
// go on where they ended, so a copy must know of them.
func partitionKeys(ctx context.Context, from mainstem.Reader, space mainstem.SpaceInfo) ([][]byte, error) {
	if !strings.HasPrefix(space.Name, topic.SpacePrefix) {
		return nil, nil
	}
	rec, err := from.Get(ctx, space.Name, topicMetaKey)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, nil // it is no topic, or is being deleted
	}
	if err != nil {
		return nil, err
	}
	var meta struct{ Partitions int32 }
	if err := json.Unmarshal(rec.Value, &meta); err != nil || meta.Partitions < 0 || meta.Partitions > topic.MaxPartitions {
		return nil, &mainstem.Error{
			Kind: mainstem.KindCorrupt, Op: "copy", Space: space.Name, Key: topicMetaKey,
			Err: fmt.Errorf("the topic's description: %d partitions: %w", meta.Partitions, err),
		}
	}
	held := map[int32]bool{}
	for rec, err := range from.Scan(ctx, space.Name, mainstem.Range{End: []byte{0x80}, KeysOnly: true, Tombstones: true}) {
		if err != nil {
			return nil, err
		}
		if len(rec.Key) == 4 {
			held[int32(binary.BigEndian.Uint32(rec.Key))] = true
		}
	}
	var out [][]byte
	for n := range meta.Partitions {
		if !held[n] {
			out = append(out, binary.BigEndian.AppendUint32(nil, uint32(n)))
		}
	}
	return out, nil
}
