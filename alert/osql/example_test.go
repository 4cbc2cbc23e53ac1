package osql_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// catalog knows one table.
type catalog struct{ table *osql.Table }

func (c catalog) Lookup(_, name string) *osql.Table {
	if name == c.table.Name {
		return c.table
	}
	return nil
}

func ExampleTranslate() {
	c := catalog{&osql.Table{ID: 1, Database: "alerts", Name: "status", Columns: []osql.Column{
		{ID: 2, Name: "Node", Type: osql.Varchar, Size: 64}, {ID: 3, Name: "Severity", Type: osql.Integer, Size: 4},
	}}}
	statements, err := osql.Split("select top 10 Node from alerts . status where Severity > 3 and Node like '^web'", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := osql.Translate(&statements[0], c, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Query.SQL)
	fmt.Println(statements[0].Literals)
	// Output:
	// SELECT a0.c2 FROM t1 AS a0 WHERE (((a0.c3 > ?1) AND (osql_like(a0.c2, ?2)))) LIMIT ?3+0
	// [10 3 '^web']
}
