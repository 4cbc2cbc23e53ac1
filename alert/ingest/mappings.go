package ingest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// MaxMappingFile bounds the bytes of a mapping file.
const MaxMappingFile = 1 << 20

// DefaultTable is the table of mappings that name none.
const DefaultTable = "alerts.status"

//go:embed mappings/*.yaml
var builtinFiles embed.FS

// Mappings are the mappings of all sources: those of a file, and the built-in ones
// for sources that the file does not name.
type Mappings struct {
	bySource map[Source]*Mapping
}

// For returns the mapping for a source: nil for one that is none.
func (m *Mappings) For(s Source) *Mapping { return m.bySource[s] }

// MappingOptions configures how mappings are read. Nil and zero fields mean the defaults.
type MappingOptions struct {
	// Columns returns the columns of a table, "database.table"; nil if there is no such
	// table. Receivers ask again, each from a goroutine of its own, when the sink says that
	// something is missing, and leave out columns that were dropped. Default
	// [alert.StandardColumns], which never change; see [ServerColumns].
	Columns func(table string) []alert.Column
}

// ServerColumns returns the columns that the tables of a server have now, for
// [MappingOptions.Columns].
func ServerColumns(server *alert.Server) func(table string) []alert.Column {
	return func(table string) []alert.Column {
		info, ok := server.Table(table)
		if !ok {
			return nil
		}
		return info.Columns
	}
}

// LoadMappings reads a mapping file.
func LoadMappings(file string, o *MappingOptions) (*Mappings, error) {
	text, err := readfile.All(file, MaxMappingFile)
	if err != nil {
		return nil, mappingError(err)
	}
	return ParseMappings(file, text, o)
}

// ParseMappings reads a mapping file from memory; file is its name in errors. It
// returns all mistakes at once, each with the line that it is in: keys and columns
// that do not exist, expressions that do not compile, and so on. They are Invalid.
func ParseMappings(file string, text []byte, o *MappingOptions) (*Mappings, error) {
	p := &mappingParser{file: file, columnsOf: alert.StandardColumns}
	if o != nil && o.Columns != nil {
		p.columnsOf = o.Columns
	}
	if len(text) > MaxMappingFile {
		return nil, mappingError(fmt.Errorf("%s has %d bytes: the limit is %d", file, len(text), MaxMappingFile))
	}
	m, err := p.parse(text)
	if err != nil {
		return nil, mappingError(err)
	}
	return m, nil
}

// DefaultMappings returns the built-in mappings.
func DefaultMappings(o *MappingOptions) (*Mappings, error) { return ParseMappings("", nil, o) }

// DefaultMapping returns the built-in mapping of a source for the standard tables:
// NotFound for what is no source.
func DefaultMapping(s Source) (*Mapping, error) {
	all, err := standardMappings()
	if err != nil {
		return nil, err
	}
	m := all.For(s)
	if m == nil {
		return nil, noSource(s)
	}
	return m, nil
}

var standardMappings = sync.OnceValues(func() (*Mappings, error) { return DefaultMappings(nil) })

func noSource(s Source) error {
	return mainstem.Errorf(mainstem.KindNotFound, "mapping", "there is no source %q: there are %v", s, Sources)
}

// BuiltinMapping returns the file that the built-in mapping of a source is read from:
// what a mapping file can begin with.
func BuiltinMapping(s Source) ([]byte, error) {
	text, err := builtinFiles.ReadFile(path.Join("mappings", string(s)+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noSource(s)
	}
	return text, err
}

func mappingError(err error) error {
	kind := mainstem.KindInvalid
	if errors.Is(err, fs.ErrNotExist) {
		kind = mainstem.KindNotFound
	}
	return &mainstem.Error{Kind: kind, Op: "mapping", Err: err}
}

// parse reads the built-in mappings, then the file on top of them.
func (p *mappingParser) parse(text []byte) (*Mappings, error) {
	out := &Mappings{bySource: map[Source]*Mapping{}}
	sections, err := p.sections(text)
	if err != nil {
		return nil, err
	}
	for _, s := range Sources {
		builtin, err := p.builtin(s)
		if err != nil {
			return nil, err
		}
		d := builtin
		if n := sections[s]; n != nil {
			d = p.section(s, n, builtin)
		}
		if m := p.build(s, d); m != nil {
			out.bySource[s] = m
		}
	}
	return out, errors.Join(p.errs...)
}

// sections returns what the file says of each source, and notes its tables.
func (p *mappingParser) sections(text []byte) (map[Source]*yaml.Node, error) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	switch err := d.Decode(&more); {
	case err == nil:
		p.fail(&more, "a second document begins here: want all sections in one, without ---")
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	p.tables = map[string]map[string]string{}
	out := map[Source]*yaml.Node{}
	if doc.Kind == 0 {
		return out, nil
	}
	for _, e := range p.entries(doc.Content[0]) {
		switch s := Source(e.key.Value); {
		case e.key.Value == "tables":
			p.readTables(e.value)
		case slices.Contains(Sources, s):
			out[s] = e.value
		default:
			p.fail(e.key, "unknown key %q: want tables or a source: %v", e.key.Value, Sources)
		}
	}
	return out, nil
}

// builtin returns the built-in definition of a source. Columns that the table does
// not have, because somebody has dropped them, are left out.
func (p *mappingParser) builtin(s Source) (*definition, error) {
	text, err := BuiltinMapping(s)
	if err != nil {
		return nil, err
	}
	inner := &mappingParser{file: "built-in " + string(s) + ".yaml", columnsOf: p.columnsOf, lenient: true}
	sections, err := inner.sections(text)
	if err != nil {
		return nil, err
	}
	d := inner.section(s, sections[s], nil)
	return d, errors.Join(inner.errs...)
}
