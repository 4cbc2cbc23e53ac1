package omnibus

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// insertStatement is what the query builder of the coordinator's clients makes of
// an alert, blanks around dots included.
func insertStatement(id, group string, i int) string {
	return fmt.Sprintf(`INSERT INTO  alerts . status  ( Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL )`+
		` VALUES ('agent', '%s', '%032x', 'Voluptatem aut consequatur sit accusantium perferendis. Accusantium voluptatem sit aut perferendis consequatur.', %d, '%s', 'manager', 'host%d.example.org', '10.1.2.%d', %d, 'Sit it''s accusantium voluptatem perferendis.', 1, 'http://example.org/%s')`,
		group, i*7919, 1_700_000_000+i, id, i%5000, i%250, 2+i%4, id)
}

func selectStatement(group string) string {
	return `SELECT  Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL  FROM  alerts . status  WHERE ( AlertGroup  = '` + group + `')`
}

// post sends body n times from as many clients as said, and reads the answers.
func post(b testing.TB, client *http.Client, url, user string, clients, n int, body func(i int) string) {
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := c; i < n; i += clients {
				r, err := http.NewRequest("POST", url, strings.NewReader(body(i)))
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.SetBasicAuth(user, user)
				resp, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Error(resp.Status, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkScenarios measures the twelve scenarios: one operation is 100 inserts, 100
// selects of ten rows or ten of 100, from one client and from ten. baseline answers
// requests of the same form with bytes of the same length, and does nothing else.
func BenchmarkScenarios(b *testing.B) {
	s := serve(b, &Options{Users: staff(b)})
	admin := s.as("admin", "admin")
	for _, n := range []int{10, 100} {
		for i := range n {
			admin.sql(insertStatement(fmt.Sprintf("g%d-%d", n, i), "group-"+strconv.Itoa(n), i))
		}
	}
	sizes := map[string]int{}
	for _, n := range []int{10, 100} {
		sizes[strconv.Itoa(n)] = len(admin.sql(selectStatement("group-" + strconv.Itoa(n))))
	}
	fixed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n, _ := strconv.Atoi(r.URL.RawQuery)
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(bytes.Repeat([]byte{' '}, n))
	}))
	b.Cleanup(fixed.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	b.Cleanup(client.CloseIdleConnections)
	round := 0
	for _, scenario := range []struct {
		name   string
		n      int
		answer int
		body   func(i int) string
	}{
		{"insert100again", 100, 64, func(i int) string { return sqlBody(insertStatement(fmt.Sprint("again-", i), "group-i", i)) }},
		{"insert100new", 100, 64, func(i int) string { return sqlBody(insertStatement(fmt.Sprint("new-", round, "-", i), "group-n", i)) }},
		{"select10rows100times", 100, sizes["10"], func(int) string { return sqlBody(selectStatement("group-10")) }},
		{"select100rows10times", 10, sizes["100"], func(int) string { return sqlBody(selectStatement("group-100")) }},
	} {
		for _, clients := range []int{1, 10} {
			for _, target := range []struct{ name, url string }{
				{"omnibus", s.url + Prefix + "sql/factory"},
				{"baseline", fixed.URL + "/?" + strconv.Itoa(scenario.answer)},
			} {
				b.Run(fmt.Sprintf("%s/clients=%d/%s", scenario.name, clients, target.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						round++
						post(b, client, target.url, "admin", clients, scenario.n, scenario.body)
					}
				})
			}
		}
	}
}

// BenchmarkRow measures writing one row of thirteen columns.
func BenchmarkRow(b *testing.B) {
	s := serve(b, nil)
	s.sql(insertStatement("x", "group", 1))
	rows, err := s.server.Query(b.Context(), selectStatement("group"))
	if err != nil {
		b.Fatal(err)
	}
	all, err := rows.Collect()
	if err != nil {
		b.Fatal(err)
	}
	var set rowset
	for i := range all[0].Columns() {
		set.key(&all[0].Columns()[i])
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = set.appendRow(buf[:0], all[0])
	}
	b.SetBytes(int64(len(buf)))
}
