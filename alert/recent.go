package alert

import "github.com/mainstemdev/mainstem"

// recent is rows that were written lately, by the IDs of their records: an alert
// that comes once often comes again, and its row need not be read from the mirror
// then. The writer's goroutine uses it.
//
// Invariant: a row that is here is in the mirror, and as it is there. Whatever
// changes the mirror in another way than applyRows drops the row.
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
func (r *recent) set(id string, p *pending) {
	r.drop(id)
	if p.now == nil || p.row == nil {
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
	x := recentRow{p.table.ID, p.now.k, p.now.version, p.row}
	if r.rows == nil {
		r.rows = map[string]recentRow{}
	}
	r.rows[id] = x
	r.bytes += x.size(id)
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
