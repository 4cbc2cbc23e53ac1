package coordinator

import "testing"

func TestUseIsNoticed(t *testing.T) {
	for _, sql := range []string{"use alerts", "USE\talerts", "use/* a comment */alerts", "/* a comment */ use alerts", " use  alerts;"} {
		c := &serverConn{}
		c.note(firstWord(sql))
		if !c.moved {
			t.Errorf("%q: its first word is %q", sql, firstWord(sql))
		}
	}
	for _, sql := range []string{"", "'", "/* use */ select 1", "used", "select * from status"} {
		c := &serverConn{}
		c.note(firstWord(sql))
		if c.moved {
			t.Errorf("%q is taken for USE", sql)
		}
	}
}
