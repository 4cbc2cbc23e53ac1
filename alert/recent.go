package alert

import "github.com/mainstemdev/mainstem"

// recent is rows that were written lately, by the IDs of their records: an alert
// that comes once often comes again, and its row need not be read from the mirror
// then. The writer's goroutine uses it.
//
// Invariant: a row that is here is in the mirror, and as it is there.
type recent struct {
	rows  map[string]recentRow
	bytes int
}

type recentRow struct {
	table   uint64 // its ID
	k       int64
	version mainstem.Version
	row     []byte // as the log has it
}

// maxRecent bounds the bytes of the rows that are kept; when it is reached, half of
// them are forgotten. recentOverhead is what one takes besides its key and its record.
const (
	maxRecent      = 4 << 20
	recentOverhead = 96
)

func (r *recentRow) size(id string) int { return len(id) + len(r.row) + recentOverhead }

// get returns the row with an ID, or nil if it is not here.
func (r *recent) get(tab *table, id string) *stored {
	x, ok := r.rows[id]
	if !ok || x.table != tab.ID {
		return nil
	}
	s := &stored{k: x.k, version: x.version, values: make([]Value, len(tab.Columns))}
	if o, err := decodeRow(x.row, tab, s.values); err != nil || o != ownRow {
		return nil
	}
	return s
}

// set notes what a row has become.
func (r *recent) set(o *op) {
	r.drop(o.id)
	if o.now == nil || o.table.virtual {
		return
	}
	if r.bytes > maxRecent {
		for id := range r.rows { // whichever come first: the order is not a fixed one
			if r.bytes <= maxRecent/2 {
				break
			}
			r.drop(id)
		}
	}
	x := recentRow{o.table.ID, o.now.k, o.now.version, o.value}
	if r.rows == nil {
		r.rows = map[string]recentRow{}
	}
	r.rows[o.id] = x
	r.bytes += x.size(o.id)
}

// drop forgets a row.
func (r *recent) drop(id string) {
	if x, ok := r.rows[id]; ok {
		r.bytes -= x.size(id)
		delete(r.rows, id)
	}
}

// forget forgets all rows.
func (r *recent) forget() {
	clear(r.rows)
	r.bytes = 0
}
