package osql

import "strings"

// printer writes expressions as statements spell them.
type printer struct {
	b        strings.Builder
	literals []Literal
}

func join[T any](p *printer, terms []T, between string, write func(T)) {
	for i, t := range terms {
		if i > 0 {
			p.b.WriteString(between)
		}
		write(t)
	}
}

func (p *printer) expr(e *expr) {
	join(p, e.Terms, " or ", func(x *xorTerm) {
		join(p, x.Terms, " xor ", func(a *andTerm) { join(p, a.Terms, " and ", p.not) })
	})
}

func (p *printer) not(n *notTerm) {
	p.b.WriteString(strings.Repeat("not ", len(n.Not)))
	p.sum(n.Compare.Left)
	if t := n.Compare.Tail; t != nil {
		p.tail(t)
	}
}

func (p *printer) tail(t *compareTail) {
	if t.Op != "" {
		p.b.WriteString(" " + t.Op + " ")
		if t.Any != nil {
			p.quantified(t.Any)
		} else {
			p.sum(t.Right)
		}
		return
	}
	if t.Not {
		p.b.WriteString(" not")
	}
	switch {
	case t.Like != nil && t.Like.Any != nil:
		p.b.WriteString(" like ")
		p.quantified(t.Like.Any)
	case t.Like != nil:
		p.b.WriteString(" like ")
		p.sum(t.Like.Pattern)
	case t.In != nil:
		p.b.WriteString(" in ")
		p.set(t.In)
	default:
		p.b.WriteString(" between ")
		p.sum(t.Between.Low)
		p.b.WriteString(" and ")
		p.sum(t.Between.High)
	}
}

func (p *printer) quantified(q *quantified) {
	p.b.WriteString(strings.ToLower(q.Quantifier) + " ")
	p.set(q.Set)
}

func (p *printer) set(s *set) {
	p.b.WriteByte('(')
	if s.Sub != nil {
		p.b.WriteString("select ...")
	} else {
		join(p, s.List, ", ", p.expr)
	}
	p.b.WriteByte(')')
}

func (p *printer) sum(s *sum) {
	p.product(s.First)
	for _, r := range s.Rest {
		p.b.WriteString(" " + r.Op + " ")
		p.product(r.Term)
	}
}

func (p *printer) product(t *product) {
	p.unary(t.First)
	for _, r := range t.Rest {
		p.b.WriteString(" " + r.Op + " ")
		p.unary(r.Term)
	}
}

func (p *printer) unary(u *unary) {
	p.b.WriteString(strings.Join(u.Signs, ""))
	switch e := u.Primary; {
	case e.Slot != nil:
		if e.Slot.Index < len(p.literals) {
			p.b.WriteString(p.literals[e.Slot.Index].String())
		}
	case e.Bool != "":
		p.b.WriteString(strings.ToLower(e.Bool))
	case e.Case != nil:
		p.b.WriteString("case")
	case e.Call != nil:
		p.call(e.Call)
	case e.Sub != nil:
		p.b.WriteString("(select ...)")
	case e.Paren != nil:
		p.b.WriteByte('(')
		p.expr(e.Paren)
		p.b.WriteByte(')')
	default:
		p.b.WriteString(strings.Join(e.Ref.Parts, "."))
	}
}

func (p *printer) call(c *call) {
	p.b.WriteString(c.Name + "(")
	switch {
	case c.Star:
		p.b.WriteByte('*')
	case c.Distinct:
		p.b.WriteString("distinct ")
	}
	join(p, c.Args, ", ", p.expr)
	p.b.WriteByte(')')
}
