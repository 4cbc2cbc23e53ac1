package eventcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

// exportFlags are those of mainstem event export.
type exportFlags struct {
	event.FeedOptions
	after  uint64
	until  cli.Point
	resume bool
}

func (m commands) newExport(store *string) *cobra.Command {
	var o exportFlags
	cmd := &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write the events of a store as JSON lines",
		Long: `Write the events of a store, in the order in which they were committed, as JSON: one
object a line, to a new file or to standard output. The fields are those of mainstem
event feed --json. Data comes back byte for byte: it is a JSON document as it is if it
has no space between its parts, else a text, else base64. So does metadata: what is not
UTF-8 is base64, in fields whose names end in _base64.

mainstem event import --exported reads it back: streams, types, IDs, tags, metadata and
data. Versions, positions and times are made anew there.

An interrupted export says with which --after to go on. --resume does that by itself:
it goes on behind the last whole line of FILE.`,
		Example: `  mainstem event export orders.jsonl --store orders
  mainstem event export orders.jsonl --store orders --resume
  mainstem event export --category order --after 1234 --until 5678 > part.jsonl`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			file := "-"
			if len(a) > 0 {
				file = a[0]
			}
			if o.resume && (file == "-" || cmd.Flags().Changed("after")) {
				return cli.WrongUsage(cmd, errors.New("--resume wants a FILE, and takes the place of --after"))
			}
			o.After = mainstem.Position(o.after)
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if file == "-" {
					return m.export(ctx, s, &o, m.Out, "-")
				}
				return m.exportFile(ctx, s, &o, file)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.after, "after", 0, "only events after this `position`")
	f.Var(&o.until, "until", "only events up to this "+cli.PointUsage)
	f.BoolVar(&o.resume, "resume", false, "go on behind the last whole line of FILE")
	f.StringVar(&o.Category, "category", "", "only streams of this `category`")
	f.StringArrayVar(&o.Types, "type", nil, "only events of this `type`; may be repeated")
	f.StringArrayVar(&o.Streams, "stream", nil, "only this `stream`; may be repeated")
	f.BoolVar(&o.Archived, "archived", false, "also the events of archived streams")
	return cmd
}

// exportFile exports to a file that is not there yet, or goes on with one.
func (m commands) exportFile(ctx context.Context, s *event.Store, o *exportFlags, name string) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.resume {
		mode = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(name, mode, 0o666)
	if errors.Is(err, os.ErrExist) {
		return mainstem.Errorf(mainstem.KindExists, "event export", "the file %s exists: name another, or say --resume to go on with it", name)
	}
	if err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "event export", Err: err}
	}
	if o.resume {
		if o.After, err = resumeExport(f, s.Name()); err != nil {
			f.Close()
			return mainstem.Errorf(mainstem.KindInvalid, "event export", "%s: %w", name, err)
		}
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = m.export(ctx, s, o, w, name)
	// However it ended, what was counted is in the file.
	ferr := errors.Join(w.Flush(), f.Sync(), f.Close())
	if ferr != nil {
		return mainstem.Errorf(mainstem.KindUnavailable, "event export", "write %s: %w", name, ferr)
	}
	return err
}

// maxTail is how much of the end of a file is searched for its last line, in bytes: the longest line is shorter.
const maxTail = 2 * cli.MaxInput

// resumeExport cuts a line off the end of f that is not whole, and returns the position of the last one, 0 if there
// is none. Writes go on behind it. A file that is no export of store is left as it is.
func resumeExport(f *os.File, store string) (mainstem.Position, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for tail := int64(64 << 10); ; tail *= 2 {
		from := max(size-tail, 0)
		b := make([]byte, size-from)
		if _, err := io.ReadFull(io.NewSectionReader(f, from, size-from), b); err != nil {
			return 0, err
		}
		end := bytes.LastIndexByte(b, '\n') + 1
		begin := bytes.LastIndexByte(b[:max(end-1, 0)], '\n') + 1
		if begin == 0 && from > 0 {
			if tail > maxTail {
				return 0, fmt.Errorf("no line ends within its last %d bytes: it is no export", tail)
			}
			continue
		}
		p, err := positionOf(b[begin:end], store)
		if err == nil && end == 0 && !mayBegin(b, store) {
			err = fmt.Errorf("its only line is not one of an export of the store %s: %.60q", store, b)
		}
		if err != nil {
			return 0, err
		}
		if err := f.Truncate(from + int64(end)); err != nil {
			return 0, err
		}
		_, err = f.Seek(from+int64(end), io.SeekStart)
		return p, err
	}
}

// mayBegin reports whether torn, a line without its end, may be one of an export of store.
func mayBegin(torn []byte, store string) bool {
	begin := append(bytes.TrimSuffix(new(cli.Fields).Add("store", store).Object(), []byte{'}'}), ',')
	return bytes.HasPrefix(torn, begin[:min(len(begin), len(torn))])
}

// positionOf returns the position in a line of an export of store, 0 of an empty line.
func positionOf(line []byte, store string) (mainstem.Position, error) {
	if len(line) == 0 {
		return 0, nil
	}
	var e exported
	if err := json.Unmarshal(line, &e); err != nil || e.Position == 0 {
		return 0, fmt.Errorf("its last line is not one of an export: %.60q", line)
	}
	if e.Store != store {
		return 0, fmt.Errorf("it is an export of the store %s, not of %s", e.Store, store)
	}
	return e.Position, nil
}

// export writes the events that o selects to w, and then says how many.
func (m commands) export(ctx context.Context, s *event.Store, o *exportFlags, w io.Writer, name string) error {
	last, err := s.LastPosition(ctx)
	if err != nil {
		return err
	}
	if o.until.Position > 0 {
		last = min(last, o.until.Position)
	}
	begin, first, at := time.Now(), o.After, o.After
	meter := m.StartMeter("exporting", 0)
	events, size := 0, 0
	for e, rerr := range eventsUntil(s.Feed(ctx, &o.FeedOptions), &o.until, 0, false) {
		if err = rerr; err == nil && ctx.Err() != nil { // much may have been read ahead
			err = mainstem.Ended(ctx, "event export", time.Time{}, "the export to end")
		}
		if err != nil {
			break
		}
		var n int
		if n, err = fmt.Fprintf(w, "%s\n", exportFields(s.Name(), &e).Object()); err != nil {
			break
		}
		events, size, at = events+1, size+n, e.Position
		if events%1000 == 0 && last > first {
			meter.Say("exporting  " + cli.Bar(min(float64(at-first)/float64(last-first), 1)))
			meter.Lines(int64(events))
		}
	}
	meter.Finish()
	if err == nil && !o.until.IsSet() && at < last && o.isWhole() {
		at = last // nothing but deletions and archived streams came behind the last event
	}
	if serr := m.printExported(s.Name(), name, events, size, at, time.Since(begin)); err == nil {
		err = serr
	}
	if err != nil && ctx.Err() != nil {
		return &exportStopped{after: at, err: err}
	}
	return err
}

// isWhole reports whether the feed is not narrowed down.
func (o *exportFlags) isWhole() bool {
	return o.Category == "" && len(o.Types)+len(o.Streams) == 0
}

// printExported says what was exported: on standard error if the events are on standard output.
func (m commands) printExported(store, name string, events, size int, at mainstem.Position, took time.Duration) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("store", store).Add("events", events).Add("bytes", size).Add("position", at).Add("seconds", took.Seconds())
		if name == "-" {
			return m.ObjectToStderr(f)
		}
		return m.Object(f)
	}
	text := fmt.Sprintf("exported %s, %s, up to position %d", cli.Plural(events, "event"), cli.Plural(size, "byte"), at)
	if name != "-" {
		return m.Line(text)
	}
	_, err := fmt.Fprintln(m.Stderr, text)
	return err
}

// exportStopped is an export that was interrupted.
type exportStopped struct {
	after mainstem.Position
	err   error
}

func (e *exportStopped) Error() string {
	return fmt.Sprintf("event export: %v; the events up to position %d are written: go on with --after %d", e.err, e.after, e.after)
}

// Resumable implements [cli.Resumable].
func (e *exportStopped) Resumable() {}

func (e *exportStopped) Unwrap() error { return e.err }

// exported is a line of an export.
type exported struct {
	Store         string            `json:"store"`
	Stream        string            `json:"stream"`
	Version       mainstem.Version  `json:"version"`
	Position      mainstem.Position `json:"position"`
	Type          string            `json:"type"`
	ID            string            `json:"id"`
	ContentType   string            `json:"content_type"`
	CorrelationID string            `json:"correlation_id"`
	CausationID   string            `json:"causation_id"`
	UserID        string            `json:"user_id"`
	TenantID      string            `json:"tenant_id"`
	Tags          []string          `json:"tags"`
	Metadata      map[string]string `json:"metadata"`
	Data          json.RawMessage   `json:"data"`
	Base64        []byte            `json:"data_base64"`

	// What stands in for the fields above if it is not UTF-8.
	CorrelationBase64 []byte            `json:"correlation_id_base64"`
	CausationBase64   []byte            `json:"causation_id_base64"`
	UserBase64        []byte            `json:"user_id_base64"`
	TenantBase64      []byte            `json:"tenant_id_base64"`
	MetadataBase64    map[string][]byte `json:"metadata_base64"`
}

// metadata returns that of the line.
func (x *exported) metadata() event.Metadata {
	m := event.Metadata{
		CorrelationID: x.CorrelationID + string(x.CorrelationBase64), CausationID: x.CausationID + string(x.CausationBase64),
		UserID: x.UserID + string(x.UserBase64), TenantID: x.TenantID + string(x.TenantBase64), Custom: x.Metadata,
	}
	if len(x.MetadataBase64) > 0 && m.Custom == nil {
		m.Custom = map[string]string{}
	}
	for name, v := range x.MetadataBase64 {
		m.Custom[name] = string(v)
	}
	return m
}

// exportFields is eventFields with data from which the same bytes can be made again.
func exportFields(store string, e *event.Recorded) *cli.Fields {
	f := eventFields(store, e)
	if isExactDocument(e.Data) || !utf8.Valid(e.Data) || e.Data == nil {
		return f.Bytes("data", e.Data)
	}
	return f.Add("data", string(e.Data))
}

// isExactDocument reports whether data is an object or array of JSON that comes back as it is.
func isExactDocument(data []byte) bool {
	if len(data) == 0 || data[0] != '{' && data[0] != '[' {
		return false
	}
	var compact bytes.Buffer
	return json.Compact(&compact, data) == nil && bytes.Equal(compact.Bytes(), data)
}

// event returns the event of the line. One without an ID gets one of its place, so that importing
// it again is safe too.
func (x *exported) event() (event.Event, error) {
	e := event.Event{Type: x.Type, ContentType: x.ContentType, Tags: x.Tags, Metadata: x.metadata()}
	var err error
	if x.ID == "" {
		e.ID = eventID(fmt.Sprintf("%s/%s/%d", x.Store, x.Stream, x.Version))
	} else if e.ID, err = event.ParseID(x.ID); err != nil {
		return e, err
	}
	switch {
	case x.Base64 != nil:
		e.Data = x.Base64
	case x.Data == nil:
		return e, errors.New("the line has neither data nor data_base64: it is not one of mainstem event export")
	case string(x.Data) == "null":
	case x.Data[0] == '"':
		var text string
		err = json.Unmarshal(x.Data, &text)
		e.Data = []byte(text)
	default:
		e.Data = x.Data
	}
	return e, err
}
