package coordinator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// mergedName is the clusterName of merged rows. No cluster can be called so.
const mergedName = "*"

// maxOrder bounds the columns that merged rows are ordered by.
const maxOrder = 16

// mergeSpec asks for the rows of all clusters as one result.
type mergeSpec struct {
	OrderBy []string `json:"orderBy"` // "Severity desc"
	Limit   int      `json:"limit"`   // rows; 0: all
	// ClusterColumn adds a column with the name of the cluster that a row is from.
	ClusterColumn string `json:"clusterColumn"`

	terms []orderTerm
}

type orderTerm struct {
	column string
	desc   bool
}

func (m *mergeSpec) validate() error {
	if m.Limit < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "coordinator", "merge.limit is %d: want 0 (all) or more", m.Limit)
	}
	if len(m.OrderBy) > maxOrder {
		return mainstem.Refusef(mainstem.KindInvalid, "coordinator", "merge.orderBy has %d columns: at most %d", len(m.OrderBy), maxOrder)
	}
	for _, text := range m.OrderBy {
		words := strings.Fields(text)
		t := orderTerm{}
		switch {
		case len(words) == 1:
		case len(words) == 2 && strings.EqualFold(words[1], "asc"):
		case len(words) == 2 && strings.EqualFold(words[1], "desc"):
			t.desc = true
		default:
			return mainstem.Refusef(mainstem.KindInvalid, "coordinator", "merge.orderBy has %.80q: want a column, and asc or desc", text)
		}
		t.column = words[0]
		m.terms = append(m.terms, t)
	}
	return nil
}

// mergedRow is a row with the values that it is ordered by.
type mergedRow struct {
	cluster string
	raw     []byte
	keys    []sortKey
}

type sortKey struct {
	text   string
	number float64
	whole  int64
	exact  bool // whole is the number
	isText bool
}

// merge appends one entry with the rows of all clusters that answered, and one for
// each that failed.
func (m *mergeSpec) merge(b []byte, entries []*entry) []byte {
	var rows []mergedRow
	affected, selected := int64(0), false
	for _, e := range entries {
		from := 0
		for _, end := range e.ends {
			rows = append(rows, m.row(e.cluster, e.buf[from:end]))
			from = end
		}
		selected = selected || len(e.ends) > 0
		affected += e.affected
	}
	if len(m.terms) > 0 {
		slices.SortStableFunc(rows, m.compare)
	}
	if m.Limit > 0 && len(rows) > m.Limit {
		rows = rows[:m.Limit]
	}
	if selected {
		affected = int64(len(rows))
	}
	b = append(rowjson.AppendString(append(b, `[{"clusterName":`...), mergedName), `,"rows":[`...)
	for i, r := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.appendRow(b, r)
	}
	b = append(strconv.AppendInt(append(b, `],"affectedRows":`...), affected, 10), '}')
	for _, e := range entries {
		if e.err == nil {
			continue
		}
		b = rowjson.AppendString(append(b, `,{"clusterName":`...), e.cluster)
		p := problemOf(e.err)
		b = append(p.append(append(b, `,"rows":[],"affectedRows":0,"error":`...)), '}')
	}
	return append(b, ']')
}

func (m *mergeSpec) row(cluster string, raw []byte) mergedRow {
	r := mergedRow{cluster: cluster, raw: raw}
	if len(m.terms) == 0 {
		return r
	}
	row := rowjson.NewRow(raw)
	r.keys = make([]sortKey, len(m.terms))
	for i, t := range m.terms {
		v, _ := row.Get(t.column)
		k := sortKey{isText: v.IsText()}
		if k.isText {
			k.text = v.Text()
		} else {
			n, ok := v.Any().(int64)
			k.whole, k.exact, k.number = n, ok, v.Real()
		}
		r.keys[i] = k
	}
	return r
}

// compare orders numbers before texts, as numbers, and texts by their bytes.
func (m *mergeSpec) compare(a, b mergedRow) int {
	for i, t := range m.terms {
		if c := compareKeys(&a.keys[i], &b.keys[i]); c != 0 {
			if t.desc {
				return -c
			}
			return c
		}
	}
	return 0
}

func compareKeys(a, b *sortKey) int {
	switch {
	case a.isText != b.isText:
		if a.isText {
			return 1
		}
		return -1
	case a.isText:
		return strings.Compare(a.text, b.text)
	case a.exact && b.exact:
		return cmp.Compare(a.whole, b.whole)
	}
	return cmp.Compare(a.number, b.number)
}

func (m *mergeSpec) appendRow(b []byte, r mergedRow) []byte {
	if m.ClusterColumn == "" {
		return append(b, r.raw...)
	}
	b = append(rowjson.AppendString(append(b, '{'), m.ClusterColumn), ':')
	b = rowjson.AppendString(b, r.cluster)
	if string(r.raw) != "{}" {
		b = append(b, ',')
	}
	return append(b, r.raw[1:]...)
}
