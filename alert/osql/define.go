package osql

import (
	"strings"

	"github.com/mainstemdev/mainstem"
)

// definition translates the statements that define something.
func (t *translator) definition(s *statement) error {
	p := t.plan
	switch {
	case s.Use != nil:
		p.Verb, p.DDL.Database = Use, s.Use.Database
	case s.Service != nil:
		if s.Service.Name.Kind != StringLiteral || s.Service.State.Kind != IntLiteral {
			return mainstem.Refusef(mainstem.KindInvalid, "sql", "SVC UPDATE wants a name and a state: SVC UPDATE 'name' 0")
		}
		p.Verb, p.DDL.Slots = ServiceUpdate, [2]int{s.Service.Name.Index, s.Service.State.Index}
	case s.Create != nil:
		return t.create(s.Create)
	case s.Alter != nil:
		return t.alter(s.Alter)
	case s.Drop != nil:
		return t.drop(s.Drop)
	}
	return nil
}

func (t *translator) create(c *createStatement) error {
	p := t.plan
	switch {
	case c.Database != "":
		p.Verb, p.DDL.Database = CreateDatabase, c.Database
		return checkName("database", c.Database)
	case c.Index != nil:
		return t.createIndex(c.Index)
	}
	p.Verb = CreateTable
	database, table, err := t.newName(c.Table.Name)
	if err != nil {
		return err
	}
	p.DDL.Database, p.DDL.Name = database, table
	p.DDL.Virtual = strings.EqualFold(c.Table.Storage, "virtual")
	keys := false
	for _, d := range c.Table.Columns {
		col, err := t.columnDef(d)
		if err != nil {
			return err
		}
		keys = keys || col.PrimaryKey
		p.DDL.Columns = append(p.DDL.Columns, col)
	}
	if !keys {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "the table %s.%s needs a primary key", database, table)
	}
	return nil
}

// newName returns the name of a table to create; a bare one is in the database
// in use.
func (t *translator) newName(n *name) (database, table string, err error) {
	switch {
	case len(n.Parts) == 2:
		database, table = n.Parts[0], n.Parts[1]
	case len(n.Parts) == 1 && t.database != "":
		database, table = t.database, n.Parts[0]
	default:
		return "", "", mainstem.Refusef(mainstem.KindInvalid, "sql", "%s is no name for a table: want database.table", strings.Join(n.Parts, "."))
	}
	if err := checkName("database", database); err != nil {
		return "", "", err
	}
	return database, table, checkName("table", table)
}

func checkName(what, s string) error {
	if !ValidName(s) {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "%.60q cannot name a %s: want 1 to %d letters, digits and underlines, a letter first", s, what, MaxName)
	}
	return nil
}

func (t *translator) columnDef(d *columnDef) (Column, error) {
	c := Column{Name: d.Name}
	if err := checkName("column", d.Name); err != nil {
		return c, err
	}
	if d.Name == RowSerial {
		return c, mainstem.Refusef(mainstem.KindInvalid, "sql", "every table has a column %s already", RowSerial)
	}
	typ, ok := ParseType(d.Type)
	if !ok {
		return c, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s has the unknown type %.40s", d.Name, d.Type)
	}
	c.Type, c.Size = typ, width(typ)
	switch {
	case typ.Text() && d.Size == nil:
		return c, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s needs a size: %s(255)", d.Name, typ)
	case !typ.Text() && d.Size != nil:
		return c, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s takes no size: only texts do", d.Name)
	case d.Size != nil:
		// The size is part of the definition, not of a cached plan: see Sizes.
		c.Size = -1 - d.Size.Index
	}
	flags := strings.ToUpper(strings.Join(d.Flag, ""))
	c.PrimaryKey = strings.Contains(flags, "PRIMARYKEY")
	c.NoModify = strings.Contains(flags, "NOMODIFY")
	c.NoDefault = strings.Contains(flags, "NODEFAULT")
	if c.PrimaryKey && (typ == Incr || typ == Real) {
		return c, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s of type %s cannot be part of a primary key", d.Name, typ)
	}
	return c, nil
}

// Sized returns the columns of the definition with their sizes, which are
// literals of the statement. Sizes out of range are Invalid.
func (d *Definition) Sized(literals []Literal) ([]Column, error) {
	out := append([]Column(nil), d.Columns...)
	for i := range out {
		if out[i].Size >= 0 {
			continue
		}
		lit := literals[-1-out[i].Size]
		if lit.Kind != IntLiteral || lit.Int < 1 || lit.Int > MaxVarchar {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s has the size %s: want 1 to %d", out[i].Name, lit, MaxVarchar)
		}
		out[i].Size = int(lit.Int)
	}
	return out, nil
}

func (t *translator) createIndex(c *createIndex) error {
	p := t.plan
	p.Verb = CreateIndex
	var err error
	if p.Table, err = t.table(c.Table); err != nil {
		return err
	}
	if _, err := column(p.Table, c.Column); err != nil {
		return err
	}
	p.DDL.Name, p.DDL.Columns = c.Name, []Column{{Name: c.Column}}
	return checkName("index", c.Name)
}

func (t *translator) alter(a *alterStatement) error {
	p := t.plan
	if a.Trigger != nil {
		p.Verb = AlterTrigger
		p.DDL = Definition{Name: a.Trigger.Name, Group: a.Trigger.Group, Enabled: strings.EqualFold(a.Trigger.Enabled, "true")}
		return nil
	}
	p.Verb = AlterTable
	var err error
	if p.Table, err = t.table(a.Table.Name); err != nil {
		return err
	}
	for _, change := range a.Table.Changes {
		if change.Add == nil {
			i, err := column(p.Table, change.Drop)
			if err != nil {
				return err
			}
			if p.Table.Columns[i].PrimaryKey {
				return mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s is part of the primary key and cannot be dropped", change.Drop)
			}
			p.DDL.Drop = append(p.DDL.Drop, change.Drop)
			continue
		}
		c, err := t.columnDef(change.Add)
		if err != nil {
			return err
		}
		if c.PrimaryKey || c.Type == Incr {
			return mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s cannot be added: a primary key and incr columns come with their table", c.Name)
		}
		p.DDL.Columns = append(p.DDL.Columns, c)
	}
	return nil
}

func (t *translator) drop(d *dropStatement) error {
	p := t.plan
	switch {
	case d.Database != "":
		p.Verb, p.DDL.Database = DropDatabase, d.Database
	case d.Index != "":
		p.Verb, p.DDL.Name = DropIndex, d.Index
	default:
		p.Verb = DropTable
		var err error
		p.Table, err = t.table(d.Table)
		return err
	}
	return nil
}
