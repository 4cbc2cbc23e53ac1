package pglog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

// Reads come in pages, so that no connection is held while a loop body runs and memory
// stays bounded: a page ends after pageRows records, or with the record with which it has
// pageBytes. Adding up bytes costs the server more than reading a page of small records.
// So for spaces that were read before the number of records is guessed; if a page
// overruns, the connection is given up in the middle, and the read goes on with exact pages.
const (
	pageRows     = 2048
	pageBytes    = 4 << 20
	overrunBytes = 4 * pageBytes
)

// A statement for records returns these columns, all of them null but extra, which is
// about the read, if there is no record. Of a record, count and tomb are null if they are
// what they mostly are: a null costs the server less than a number. Those from first on
// are left out if the page has been told the space, and the key.
const (
	colExtra = iota
	colVersion
	colCount
	colPosition
	colTime
	colExpires
	colTomb
	colHeaders
	colValue
	colFirst
	colRest
	colSpace
	columns
)

// recordColumns are those of a record r, keyColumns those of its key k, and noExtra stands
// for the first.
const (
	noExtra       = "NULL::bigint AS extra"
	recordColumns = "r.version, nullif(r.count, 1) AS count, r.position, r.time, r.expires, nullif(r.tomb, 0) AS tomb, r.headers, r.value"
	keyColumns    = "k.name, k.rest"
)

// page is a part of a read. Its memory is used again for the next, of the same read and of
// later ones: records are lent.
type page struct {
	space   string // of all records; "" if it is a column
	key     []byte // of all records; nil if it is a column
	records []mainstem.Record
	found   bool  // the space is there: the statement returned a row
	extra   int64 // of the last row
	bytes   int   // of keys, headers and values
	arena   []byte
	headers []mainstem.Header
	names   map[string]string // of headers, met before
}

// pages are those that no read uses.
var pages = sync.Pool{New: func() any { return new(page) }}

// Memory beyond this does not wait in pages for the next read.
const idleBytes = 1 << 20

// newPage returns a page for records of a space, of a key. Empty and nil mean any.
func newPage(space string, key []byte) *page {
	p := pages.Get().(*page)
	p.space, p.key = space, key
	return p
}

// free gives the page back, and with it the records in it.
func (p *page) free() {
	p.reset()
	p.space, p.key = "", nil
	if len(p.names) == maxNames {
		p.names = nil // the next read may have others
	}
	if cap(p.arena) <= idleBytes && cap(p.records) <= pageRows && cap(p.headers) <= 4*pageRows {
		pages.Put(p)
	}
}

// full reports whether there may be more after a page of at most limit records.
func (p *page) full(limit int) bool { return len(p.records) >= limit || p.bytes >= pageBytes }

func (p *page) reset() {
	clear(p.records)
	clear(p.headers)
	p.records, p.arena, p.headers = p.records[:0], p.arena[:0], p.headers[:0]
	p.found, p.extra, p.bytes = false, 0, 0
}

// errOverrun is the end of a page that is not exact and has far more bytes than expected.
var errOverrun = errors.New("the page is too large")

// fill returns a function that reads all rows. An exact page never overruns: it ends with
// the record with which it has pageBytes, however large that record is.
func (p *page) fill(exact bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		p.reset()
		for rows.Next() {
			if err := p.add(rows.RawValues()); err != nil {
				return err
			}
			if !exact && p.bytes > overrunBytes && len(p.records) > 1 {
				return errOverrun
			}
		}
		return rows.Err()
	}
}

// keep copies b into the arena. Records of earlier calls keep what they have when the
// arena moves.
func (p *page) keep(b []byte) []byte {
	if len(b) == 0 {
		return b[:0:0] // nil stays nil
	}
	at := len(p.arena)
	p.arena = append(p.arena, b...)
	return p.arena[at:len(p.arena):len(p.arena)]
}

func (p *page) add(row [][]byte) error {
	if want := p.width(); len(row) != want {
		return fmt.Errorf("a row has %d columns, want %d", len(row), want)
	}
	p.found = true
	var err error
	if p.extra, err = integer(row[colExtra]); err != nil || row[colVersion] == nil {
		return err
	}
	var n [colTomb + 1]int64
	for col := colVersion; col <= colTomb; col++ {
		if n[col], err = integer(row[col]); err != nil {
			return err
		}
	}
	p.records = append(p.records, mainstem.Record{
		Version: mainstem.Version(n[colVersion]), Count: uint32(max(n[colCount], 1)), Position: mainstem.Position(n[colPosition]),
		Time: time.Unix(0, n[colTime]), Tombstone: mainstem.Tombstone(n[colTomb]), Value: p.keep(row[colValue]), Space: p.space, Key: p.key,
	})
	r := &p.records[len(p.records)-1]
	if n[colExpires] != 0 {
		r.Expires = time.Unix(0, n[colExpires])
	}
	p.identify(r, row)
	if len(row[colHeaders]) > 0 {
		if r.Headers, err = p.decode(p.keep(row[colHeaders])); err != nil {
			return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "read", Space: r.Space, Key: bytes.Clone(r.Key), Err: fmt.Errorf("version %d: %w", r.Version, err)}
		}
	}
	p.bytes += len(r.Key) + len(row[colHeaders]) + len(r.Value)
	return nil
}

func (p *page) width() int {
	switch {
	case p.key != nil:
		return colFirst
	case p.space != "":
		return colSpace
	}
	return columns
}

// identify sets what the page was not told.
func (p *page) identify(r *mainstem.Record, row [][]byte) {
	if p.key == nil {
		at := len(p.arena)
		p.arena = append(append(p.arena, row[colFirst]...), row[colRest]...)
		r.Key = p.arena[at:len(p.arena):len(p.arena)]
	}
	if p.space != "" {
		return
	}
	if n := len(p.records); n > 1 && p.records[n-2].Space == string(row[colSpace]) {
		r.Space = p.records[n-2].Space
		return
	}
	r.Space = string(row[colSpace])
}

// decode is decodeHeaders into memory of the page.
func (p *page) decode(b []byte) (mainstem.Headers, error) {
	at := len(p.headers)
	var err error
	if p.headers, err = appendDecoded(p.headers, b, p.intern); err != nil {
		return nil, err
	}
	return p.headers[at:len(p.headers):len(p.headers)], nil
}

// maxNames bounds the names of headers that a page remembers.
const maxNames = 64

// intern returns b as a string, one that it made before if it can.
func (p *page) intern(b []byte) string {
	if s, ok := p.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if p.names == nil {
		p.names = map[string]string{}
	}
	if len(p.names) < maxNames {
		p.names[s] = s
	}
	return s
}

// integer decodes a smallint, integer or bigint; null is 0.
func integer(b []byte) (int64, error) {
	switch len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	case 0:
		return 0, nil
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))), nil
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	}
	return 0, fmt.Errorf("an integer has %d bytes", len(b))
}

// source runs the statements of reads: on the log, or in one transaction.
type source interface {
	// query calls fill with the rows of a statement; the connection is free afterwards.
	query(ctx context.Context, op string, fill func(pgx.Rows) error, sql string, args ...any) error
	// moment returns the reading of the clock that the read goes by, as the function tick takes it.
	moment() *int64
	// exact reports whether pages must not overrun, because the connection must not break.
	exact() bool
}

// poolSource reads the log as it is, on any connection.
type poolSource struct{ l *Log }

func (s poolSource) query(ctx context.Context, op string, fill func(pgx.Rows) error, sql string, args ...any) error {
	ctx, end, err := s.l.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	rows, err := s.l.reads.Query(ctx, sql, append([]any{pgx.QueryResultFormats(binaryFormat)}, args...)...)
	if err == nil {
		if err = fill(rows); err == errOverrun {
			giveUp() // or closing the rows would read them all
		}
		rows.Close()
	}
	if err == errOverrun {
		return err
	}
	return s.l.mapError(ctx, op, err)
}

// exact implements source.
func (s poolSource) exact() bool { return false }

func (s poolSource) moment() *int64 {
	now := s.l.clock.reading()
	return &now
}
