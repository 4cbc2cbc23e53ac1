package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/alert/omnirest"
)

// columns are those that the statements name, in the order of their names.
var columns = []string{"Agent", "AlertGroup", "AlertKey", "ExtendedAttr", "FirstOccurrence", "Identifier", "Manager", "Node", "NodeAlias", "Severity", "Summary", "Type", "URL"}

// event is an alert: the values of the columns, as texts.
type event struct {
	id, group string
	values    []string
}

// number reports whether a column holds numbers.
func number(column string) bool {
	return column == "FirstOccurrence" || column == "Severity" || column == "Type"
}

var words = strings.Fields("accusantium aut consequatur et it's perferendis quia quo sit ut vel voluptatem")

// newAlerts returns the alerts of a scenario: rows of them, or as many for each round,
// all of one group.
func newAlerts(s *scenario, rounds int) []event {
	n := s.rows
	if s.fresh {
		n *= rounds
	}
	group := uuid()
	alerts := make([]event, n)
	for i := range alerts {
		host := fmt.Sprintf("host%d.example.org", rand.IntN(1000))
		alerts[i] = event{id: uuid(), group: group}
		alerts[i].values = []string{
			"agent " + words[rand.IntN(len(words))], group, strings.ReplaceAll(uuid(), "-", ""), sentences(4), strconv.Itoa(1_700_000_000 + rand.IntN(1_000_000)),
			alerts[i].id, "manager", host, fmt.Sprintf("10.%d.%d.%d", rand.IntN(256), rand.IntN(256), rand.IntN(256)), strconv.Itoa(2 + rand.IntN(4)),
			sentences(1), "1", "http://" + host + "/" + words[rand.IntN(len(words))],
		}
	}
	return alerts
}

func uuid() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

func sentences(n int) string {
	var all []string
	for range n {
		some := make([]string, 5+rand.IntN(4))
		for i := range some {
			some[i] = words[rand.IntN(len(words))]
		}
		all = append(all, strings.Join(some, " ")+".")
	}
	return strings.Join(all, " ")
}

// insert returns the INSERT of an alert as the original's SQL builder writes it: with
// blanks in the place of quotes around names.
func (e *event) insert() string {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = e.values[i]
		if !number(c) {
			values[i] = "'" + strings.ReplaceAll(e.values[i], "'", "''") + "'"
		}
	}
	return "INSERT INTO  alerts . status  ( " + strings.Join(columns, " ,  ") + " ) VALUES (" + strings.Join(values, ", ") + ")"
}

// selectGroup returns the SELECT of a group, written in the same way.
func selectGroup(group string) string {
	return "SELECT  " + strings.Join(columns, " ,  ") + "  FROM  alerts . status  WHERE ( AlertGroup  = '" + group + "')"
}

// same compares rows with the alerts that they must be, in any order.
func same(rows []omnirest.Row, alerts []event) error {
	if len(rows) != len(alerts) {
		return fmt.Errorf("%d rows came, want %d", len(rows), len(alerts))
	}
	want := make(map[string]*event, len(alerts))
	for i := range alerts {
		want[alerts[i].id] = &alerts[i]
	}
	for _, row := range rows {
		id := row.Text("Identifier")
		e := want[id]
		if e == nil {
			return fmt.Errorf("the row %q came twice, or is no row of the group", id)
		}
		delete(want, id)
		for i, c := range columns {
			got := row.Text(c)
			if number(c) {
				got = strconv.FormatInt(row.Int(c), 10)
			}
			if got != e.values[i] {
				return fmt.Errorf("the row %s has %s %q, want %q", id, c, got, e.values[i])
			}
		}
	}
	return nil
}
