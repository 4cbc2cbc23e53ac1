package alert

import (
	"fmt"
	"strings"
)

// columns are those of the workloads, in order.
var columns = []string{"Agent", "AlertGroup", "AlertKey", "ExtendedAttr", "FirstOccurrence", "Identifier", "Manager", "Node", "NodeAlias", "Severity", "Summary", "Type", "URL"}

const paragraph = "Voluptatem aut consequatur sit accusantium perferendis. Accusantium voluptatem sit aut perferendis consequatur."

// row is an alert.
type row map[string]any

// alertOf returns the i-th alert of a group.
func alertOf(group, summary string, i int) row {
	id := fmt.Sprintf("%s-%d", group, i)
	return row{
		"Agent": "agent", "AlertGroup": group, "AlertKey": fmt.Sprintf("%032x", i*7919), "ExtendedAttr": paragraph,
		"FirstOccurrence": int64(1_700_000_000 + i), "Identifier": id, "Manager": "manager", "Node": fmt.Sprintf("host%d.example.org", i%5000),
		"NodeAlias": fmt.Sprintf("10.1.2.%d", i%250), "Severity": int64(2 + i%4), "Summary": summary, "Type": int64(1), "URL": "http://example.org/" + id,
	}
}

// blanks writes names as the query builder of the original does.
func blanks(names []string) string { return " " + strings.Join(names, " ,  ") + " " }

const table = " alerts . status "

// insert returns the statement that inserts r.
func insert(r row) string {
	values := make([]string, len(columns))
	for i, c := range columns {
		if text, ok := r[c].(string); ok {
			values[i] = quote(text)
		} else {
			values[i] = fmt.Sprint(r[c])
		}
	}
	return "INSERT INTO " + table + " (" + blanks(columns) + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// find returns the statement that selects the alerts of a group, with further columns.
func find(group string, further ...string) string {
	return "SELECT " + blanks(append(columns[:len(columns):len(columns)], further...)) + " FROM " + table + where(group)
}

// remove returns the statement that deletes the alerts of a group.
func remove(group string) string { return "DELETE FROM " + table + where(group) }

// retitle returns the statement that gives the alerts of a group a new summary.
func retitle(group, summary string) string {
	return "UPDATE " + table + " SET  Summary =" + quote(summary) + where(group)
}

func where(group string) string { return " WHERE ( AlertGroup  = " + quote(group) + ")" }

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// same checks that rows, as they came back, are the alerts want, by Identifier.
func same(rows []map[string]any, want []row, tally int) error {
	if len(rows) != len(want) {
		return fmt.Errorf("%d alerts, want %d", len(rows), len(want))
	}
	byID := make(map[any]row, len(want))
	for _, w := range want {
		byID[w["Identifier"]] = w
	}
	for _, got := range rows {
		w := byID[got["Identifier"]]
		if w == nil {
			return fmt.Errorf("alert %v is there twice, or should not be there", got["Identifier"])
		}
		delete(byID, got["Identifier"])
		for _, c := range columns {
			if number(got[c]) != number(w[c]) {
				return fmt.Errorf("alert %v has %s %v, want %v", got["Identifier"], c, got[c], w[c])
			}
		}
		if tally > 0 && number(got["Tally"]) != number(tally) {
			return fmt.Errorf("alert %v has Tally %v, want %d", got["Identifier"], got["Tally"], tally)
		}
	}
	return nil
}

// number makes numbers of all types comparable, and leaves texts as they are.
func number(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	}
	return v
}
