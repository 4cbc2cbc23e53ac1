package alertcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/importer"
	"github.com/mainstemdev/mainstem/server"
)

// alertImporter is where alerts can be imported into.
type alertImporter interface {
	// target returns where rows go, at most how many at a time so that an insert is done
	// wholly or not at all, and what tells the columns of tables.
	target(ctx context.Context) (sink ingest.Sink, atOnce int, columns func(table string) ([]alert.Column, error), err error)
}

// fileImport imports files. It is used once.
type fileImport struct {
	m     *cli.Main
	where alertFlags

	format    string
	separator string
	mapping   string
	onError   string
	batch     int
	fromLine  int64
	maxLine   string
	quiet     bool

	limit  int64 // bytes of a line
	tables alertImporter
	sink   ingest.Sink
	atOnce int
	maps   *ingest.Mappings
	report *importer.Report
}

func (m commands) newImport() *cobra.Command {
	im := &fileImport{m: m.Main}
	cmd := &cobra.Command{
		Use:   "import FILE...|-",
		Short: "Make alerts of the lines of files",
		Long: `Make alerts of the lines of files: JSON Lines (one object a line) or CSV (the first row
names the fields); - is standard input, whose lines are written as they come.

Fields fill the columns of their names; host, message, level, time and other usual names
are known, and what is left goes to ExtendedAttr. --mapping names a file that says it
otherwise: docs/alert-ingest.md. An alert that is there already becomes its next
occurrence. A file can be imported again: lines that have a time do not count twice, in
a log, or if the server takes --user for a probe.

Lines are written in order, in batches. A line that is no alert, or that the tables
refuse, is reported by its number on standard error and left out; if there were any, the
exit status is 1. With --on-error stop the first one ends the import. An interrupted
import says with which --from-line to go on.` + alertsHelp,
		Example: `  mainstem alerts import alerts.jsonl
  mainstem alerts import events.csv --mapping network.yaml --on-error stop
  mainstem alerts import old/*.csv --url http://127.0.0.1:8081
  tail -f events.jsonl | mainstem alerts import -`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := im.check(a); err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withAlerts(cmd, cli.Writing, &im.where, func(ctx context.Context, t alertTables) error {
				tables, ok := t.(alertImporter)
				if !ok {
					return mainstem.Errorf(mainstem.KindUnsupported, "alerts import", "rows cannot be imported there")
				}
				im.tables = tables
				return im.run(ctx, a)
			})
		},
	}
	im.where.add(cmd, ingest.App, false)
	f := cmd.Flags()
	f.StringVar(&im.format, "format", "auto", "jsonl, csv or auto: by the file's name, then by its first byte")
	f.StringVar(&im.separator, "separator", "", "`character` between CSV fields (default a comma; a tab for .tsv files)")
	f.StringVar(&im.mapping, "mapping", "", "YAML `file` that says what becomes of fields")
	f.StringVar(&im.onError, "on-error", "skip", "what a bad line does: skip is left out, stop ends the import")
	f.IntVar(&im.batch, "batch", ingest.DefaultBatchRows, "`rows` in one insert")
	f.Int64Var(&im.fromLine, "from-line", 0, "leave out the lines before this `number`, of one file")
	f.StringVar(&im.maxLine, "max-line", "1MiB", "longest line, in `bytes`")
	f.BoolVar(&im.quiet, "quiet", false, "no progress bar")
	return cmd
}

// check checks the flags.
func (im *fileImport) check(files []string) (err error) {
	im.limit, err = server.ParseSize(im.maxLine)
	switch {
	case err != nil:
		return fmt.Errorf("--max-line: %w", err)
	case im.limit < 1 || im.limit > cli.MaxInput:
		return fmt.Errorf("--max-line is %s: want 1 to %d bytes", im.maxLine, cli.MaxInput)
	case im.format != "auto" && im.format != "jsonl" && im.format != "csv":
		return fmt.Errorf("--format is %q: want jsonl, csv or auto", im.format)
	case im.onError != "skip" && im.onError != "stop":
		return fmt.Errorf("--on-error is %q: want skip or stop", im.onError)
	case im.batch < 1 || im.batch > ingest.MaxBatchRows:
		return fmt.Errorf("--batch is %d: want 1 to %d rows", im.batch, ingest.MaxBatchRows)
	case im.fromLine < 0:
		return fmt.Errorf("--from-line is %d: lines begin at 1", im.fromLine)
	case im.fromLine > 0 && len(files) > 1:
		return errors.New("--from-line is a line of one file: give that alone")
	}
	for i, name := range files {
		if name == "-" && i > 0 {
			return errors.New("- stands for standard input: it can only be the first file")
		}
	}
	_, err = importer.Separator(im.separator, "")
	return err
}

// run imports the files one after the other.
func (im *fileImport) run(ctx context.Context, files []string) error {
	sink, atOnce, columns, err := im.tables.target(ctx)
	if err != nil {
		return err
	}
	im.sink, im.atOnce = patient(ctx, sink), min(im.batch, atOnce)
	if im.maps, err = loadMappings(im.mapping, columns); err != nil {
		return err
	}
	im.report = importer.NewReport(im.m, sizeOfAll(files), im.quiet)
	next := int64(0)
	for _, name := range files {
		var done int64
		if done, err = im.file(ctx, name); err != nil {
			file := ""
			if len(files) > 1 {
				file = name
			}
			next = done + 1
			err = &importer.StoppedError{File: file, Next: next, Err: err}
			break
		}
	}
	if serr := im.report.Summary("dropped", "dropped by the mapping", next); err == nil {
		err = serr
	}
	if err == nil && im.report.Bad > 0 {
		err = cli.ErrFailed
	}
	return err
}

// sizeOfAll returns the bytes of files, 0 if they are not known.
func sizeOfAll(files []string) (total int64) {
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

// file imports one file and returns the line up to which it is done.
func (im *fileImport) file(ctx context.Context, name string) (int64, error) {
	done := max(im.fromLine-1, 0)
	in, size, err := importer.Open(im.m, name)
	if err != nil {
		return done, err
	}
	defer in.Close()
	o := &ingest.ImportOptions{File: filepath.Base(name), BatchRows: im.atOnce, MaxLine: int(im.limit), After: done, SkipBad: im.onError == "skip"}
	shown := name
	if name == "-" {
		o.File, shown = "stdin", "stdin"
	}
	source := im.report.Count(in)
	if size == 0 {
		o.Idle = importer.Idle
		source = untilDone(ctx, source)
	}
	text := bufio.NewReader(source)
	if o.Format, err = im.formatOf(name, text); err != nil {
		return done, err
	}
	o.Mapping = im.maps.For(o.Format)
	separator, _ := importer.Separator(im.separator, name) // it was checked
	o.Comma = rune(separator)
	written, lines := im.report.Written, im.report.Lines
	o.OnBad = func(e *ingest.LineError) { im.report.BadLine(shown, e.Line, e.Err) }
	o.Progress = func(r ingest.Report) { im.report.Progress(lines + r.Line) }
	r, err := ingest.Import(ctx, text, im.sink, o)
	im.report.Written = written + r.Rows
	im.report.Lines = lines + r.Events
	im.report.Skipped += r.Dropped
	var bad *ingest.LineError
	if errors.As(err, &bad) {
		im.report.BadLine(shown, bad.Line, bad.Err)
		err = mainstem.Errorf(mainstem.KindInvalid, "alerts import", "stopped at line %d (--on-error stop)", bad.Line)
	}
	return max(r.Line, done), err
}

// formatOf says what a file is: by the flag, its name, or its first byte.
func (im *fileImport) formatOf(name string, text *bufio.Reader) (ingest.Source, error) {
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case im.format == "jsonl" || im.format == "auto" && (ext == ".jsonl" || ext == ".ndjson" || ext == ".json"):
		return ingest.JSONLines, nil
	case im.format == "csv" || ext == ".csv" || ext == ".tsv":
		return ingest.CSV, nil
	}
	for n := 1; n <= formatBytes; n++ {
		b, err := text.Peek(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if len(b) < n {
			break
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			continue
		case '{':
			return ingest.JSONLines, nil
		}
		return ingest.CSV, nil
	}
	return ingest.JSONLines, nil // nothing, or nothing but blanks
}

// formatBytes is how far formatOf looks for something other than blanks.
const formatBytes = 1024

// loadMappings reads the mapping file, or the built-in mappings, for tables with the
// columns that they have. What is wrong with the file is a wrong configuration.
func loadMappings(file string, columns func(table string) ([]alert.Column, error)) (*ingest.Mappings, error) {
	var trouble error
	o := &ingest.MappingOptions{Columns: func(table string) []alert.Column {
		found, err := columns(table)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			trouble = err
		}
		return found
	}}
	load := func() (*ingest.Mappings, error) { return ingest.DefaultMappings(o) }
	if file != "" {
		load = func() (*ingest.Mappings, error) { return ingest.LoadMappings(file, o) }
	}
	maps, err := load()
	switch {
	case trouble != nil:
		return nil, trouble
	case err != nil && file != "":
		return nil, cli.WrongConfig(err)
	}
	return maps, err
}

// patient returns a sink that tries again what may succeed later, and finishes an insert
// that has begun when the import is interrupted: then its outcome is known. Rows that
// come twice are the next occurrence of an alert, at worst.
func patient(interrupted context.Context, sink ingest.Sink) ingest.Sink {
	return ingest.SinkFunc(func(_ context.Context, table string, columns []string, rows [][]any, updating ...string) error {
		ctx, cancel := importer.Outlive(interrupted)
		defer cancel()
		return importer.Retry(interrupted, func() error { return sink.InsertRows(ctx, table, columns, rows, updating...) })
	})
}

// target implements alertImporter: the session of the command.
func (t *logTables) target(context.Context) (ingest.Sink, int, func(string) ([]alert.Column, error), error) {
	sink := ingest.SinkFunc(func(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
		_, err := t.session.InsertRows(ctx, table, columns, rows, updating...)
		return err
	})
	columns := ingest.ServerColumns(t.server)
	return sink, ingest.MaxBatchRows, func(table string) ([]alert.Column, error) { return columns(table), nil }, nil
}

const (
	restBatch   = 1000              // rows that a Mainstem server inserts together; others take one at a time
	maxLiterals = 32_000            // in one statement
	maxInsert   = osql.MaxText / 10 // bytes of values in one statement, whatever stands around them
)

// target implements alertImporter.
func (t *restTables) target(ctx context.Context) (ingest.Sink, int, func(string) ([]alert.Column, error), error) {
	own, err := t.client.Mainstem(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	atOnce := 1
	if own {
		atOnce = restBatch
	}
	return ingest.SinkFunc(t.insertRows), atOnce, func(table string) ([]alert.Column, error) { return t.columns(ctx, table) }, nil
}

// insertRows inserts rows by way of the collection, or by SQL if there is something to
// update, which the collection cannot say.
func (t *restTables) insertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	if len(updating) == 0 {
		return t.client.InsertRows(ctx, table, columns, rows)
	}
	values := make([][]alert.Value, len(rows))
	size := 0
	for i, row := range rows {
		values[i] = make([]alert.Value, len(row))
		for j, v := range row {
			values[i][j] = valueOf(v)
			size += len(values[i][j].String())
		}
	}
	if len(rows) > 1 && (len(rows)*len(columns) > maxLiterals || size > maxInsert) {
		// The importer tries with fewer then; nothing was sent.
		return mainstem.Refusef(mainstem.KindInvalid, "alerts import", "%d rows are too much for one statement", len(rows))
	}
	_, err := t.client.RawSQL(ctx, insertStatement(table, columns, values, updating), func(omnirest.Row) error { return nil })
	return err
}

// valueOf returns what a mapping has made as a value.
func valueOf(v any) alert.Value {
	switch v := v.(type) {
	case string:
		return alert.Text(v)
	case int64:
		return alert.Int(v)
	case float64:
		return alert.Real(v)
	}
	return alert.Text(fmt.Sprint(v))
}
