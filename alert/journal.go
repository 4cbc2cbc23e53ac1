package alert

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// journalTable keeps notes on alerts. Event list tools of OMNIbus write a row for each
// acknowledgement, change of owner and escalation; here the automation journal_changes
// does, so that it is in the commit of the change, no matter which user makes it.
const journalTable = "alerts.journal"

// nobody is the UID of a row of the journal, and of alerts that have no owner: sessions
// have names and no numbers.
const nobody = 65534

// escalations are what the values of SuppressEscl are called.
var escalations = [...]string{"normal", "escalated", "escalated, level 2", "escalated, level 3", "suppressed", "hidden", "maintenance"}

// journalChanges notes who acknowledged an alert, changed its owner or its escalation, or
// took that back. A gateway brings the journal of the other server.
func journalChanges(e *RowEvent) error {
	if e.Session.Gateway {
		return nil
	}
	by := e.Session.User
	if by == "" {
		by = "the server"
	}
	was := func(column string) (from, to int64, changed bool) {
		from, to = e.Old.Int(column), e.New.Int(column)
		return from, to, from != to
	}
	note := func(format string, a ...any) {
		e.journal = append(e.journal, fmt.Sprintf(format, a...)+" by "+by)
	}
	if _, to, changed := was("Acknowledged"); changed && to != 0 {
		note("Alert acknowledged")
	} else if changed {
		note("Alert de-acknowledged")
	}
	if from, to, changed := was("OwnerUID"); changed {
		note("Alert owner changed from %s to %s", owner(from), owner(to))
	}
	if from, to, changed := was("OwnerGID"); changed {
		note("Alert owner group changed from %d to %d", from, to)
	}
	if from, to, changed := was("SuppressEscl"); changed {
		note("Alert escalation changed from %s to %s", escalation(from), escalation(to))
	}
	return nil
}

func owner(uid int64) string {
	if uid == nobody {
		return "nobody"
	}
	return strconv.FormatInt(uid, 10)
}

func escalation(n int64) string {
	if n >= 0 && n < int64(len(escalations)) {
		return escalations[n]
	}
	return strconv.FormatInt(n, 10)
}

// note adds a row to the journal of the alert of e, with what its triggers have noted: a
// text for each, as many as the table takes. It is part of the transaction that changes the
// alert. A log without the standard columns gets no such rows.
func (ss *Session) note(t *tx, e *RowEvent) error {
	tab := t.schema.tables[journalTable]
	if tab == nil || !slices.Equal(keyNames(tab), []string{"KeyField"}) {
		return nil
	}
	serial := e.Old.Int("Serial")
	values := slices.Clone(tab.zero)
	set := func(column string, v Value) error {
		i, ok := tab.header.index[column]
		if !ok {
			return nil // somebody has dropped it
		}
		fitted, err := fit(v, &tab.Columns[i])
		values[i] = fitted
		return err
	}
	// Clients name their rows Serial:UID:Chrono. A fourth part keeps these apart from
	// them, and several of one moment from each other.
	base := fmt.Sprintf("%d:%d:%d:", serial, nobody, e.Now.Unix())
	for n := int64(e.Now.Nanosecond()); ; n++ {
		if err := set("KeyField", Text(base+strconv.FormatInt(n, 10))); err != nil {
			return err
		}
		there, err := t.get(tab, keyOf(tab, values), values)
		if err != nil {
			return err
		}
		if there == nil {
			break
		}
	}
	cells := []struct {
		name string
		v    Value
	}{{"Serial", Int(journalSerial(tab, serial))}, {"UID", Int(nobody)}, {"Chrono", Int(e.Now.Unix())}}
	for i, text := range e.journal {
		cells = append(cells, struct {
			name string
			v    Value
		}{"Text" + strconv.Itoa(i+1), Text(text)})
	}
	for _, c := range cells {
		if err := set(c.name, c.v); err != nil {
			return err
		}
	}
	_, err := ss.put(t, tab, values, nil, e.Now)
	return err
}

// journalSerial returns a serial as the column Serial of the journal holds it. Earlier versions
// made it a signed number, which a large serial wraps in, as it does in ServerSerial.
func journalSerial(tab *table, serial int64) int64 {
	if i, ok := tab.header.index["Serial"]; ok && tab.Columns[i].Type == osql.Integer {
		return int64(int32(serial))
	}
	return serial
}

// keyNames returns the names of the columns of a table's primary key.
func keyNames(tab *table) []string {
	var out []string
	for _, i := range tab.keys {
		if tab.Columns[i].Type != osql.Varchar {
			return nil
		}
		out = append(out, tab.Columns[i].Name)
	}
	return out
}
