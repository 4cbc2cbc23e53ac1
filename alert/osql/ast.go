package osql

import (
	"fmt"
	"strconv"
)

// The grammar: each struct is a production, its tags are participle's. Words in
// quotes match keywords, or names in any case.

type statement struct {
	Select   *selectStatement   `parser:"(  @@"`
	Insert   *insertStatement   `parser:"| @@"`
	Update   *updateStatement   `parser:"| @@"`
	Delete   *deleteStatement   `parser:"| @@"`
	Describe *describeStatement `parser:"| @@"`
	Create   *createStatement   `parser:"| @@"`
	Alter    *alterStatement    `parser:"| @@"`
	Drop     *dropStatement     `parser:"| @@"`
	Use      *useStatement      `parser:"| @@"`
	Service  *serviceStatement  `parser:"| @@ )"`
}

type name struct {
	Parts []string `parser:"@Ident ( '.' @Ident )*"`
}

type selectStatement struct {
	Distinct bool        `parser:"'SELECT' @'DISTINCT'?"`
	Top      *slot       `parser:"( 'TOP' @Slot )?"`
	Items    []*item     `parser:"@@ ( ',' @@ )*"`
	From     []*tableRef `parser:"( 'FROM' @@ ( ',' @@ )* )?"`
	Via      *via        `parser:"( 'VIA' @@ )?"`
	Where    *expr       `parser:"( 'WHERE' @@ )?"`
	GroupBy  []*expr     `parser:"( 'GROUP' 'BY' @@ ( ',' @@ )* )?"`
	Having   *expr       `parser:"( 'HAVING' @@ )?"`
	OrderBy  []*order    `parser:"( 'ORDER' 'BY' @@ ( ',' @@ )* )?"`
}

type item struct {
	Star  bool   `parser:"(  @'*'"`
	Expr  *expr  `parser:"| @@ )"`
	Alias string `parser:"( 'AS'? @Ident )?"`
}

type tableRef struct {
	Name  *name  `parser:"@@"`
	Alias string `parser:"( 'AS'? @Ident )?"`
}

type order struct {
	Expr *expr `parser:"@@"`
	Desc bool  `parser:"( 'ASC' | @'DESC' )?"`
}

type via struct {
	Keys []*expr `parser:"@@ ( ',' @@ )*"`
}

type insertStatement struct {
	Table    *name    `parser:"'INSERT' 'INTO' @@"`
	Columns  []string `parser:"( '(' @Ident ( ',' @Ident )* ')' )?"`
	Rows     []*tuple `parser:"'VALUES' @@ ( ',' @@ )*"`
	Updating []string `parser:"( 'UPDATING' '(' @Ident ( ',' @Ident )* ')' )?"`
}

type tuple struct {
	Values []*expr `parser:"'(' @@ ( ',' @@ )* ')'"`
}

type updateStatement struct {
	Table *name         `parser:"'UPDATE' @@"`
	Via   *via          `parser:"( 'VIA' @@ )?"`
	Set   []*assignment `parser:"'SET' @@ ( ',' @@ )*"`
	Where *expr         `parser:"( 'WHERE' @@ )?"`
}

type assignment struct {
	Column string `parser:"@Ident '='"`
	Value  *expr  `parser:"@@"`
}

type deleteStatement struct {
	Table *name `parser:"'DELETE' 'FROM' @@"`
	Via   *via  `parser:"( 'VIA' @@ )?"`
	Where *expr `parser:"( 'WHERE' @@ )?"`
}

type describeStatement struct {
	Table *name `parser:"( 'DESCRIBE' | 'DESC' ) @@"`
}

type createStatement struct {
	Database string       `parser:"'CREATE' (  'DATABASE' @Ident"`
	Table    *createTable `parser:"| @@"`
	Index    *createIndex `parser:"| @@ )"`
}

type createTable struct {
	Name    *name        `parser:"'TABLE' @@"`
	Storage string       `parser:"@( 'PERSISTENT' | 'VIRTUAL' )?"`
	Columns []*columnDef `parser:"'(' @@ ( ',' @@ )* ')'"`
}

type columnDef struct {
	Name string   `parser:"@Ident"`
	Type string   `parser:"@Ident"`
	Size *slot    `parser:"( '(' @Slot ')' )?"`
	Flag []string `parser:"( @( 'PRIMARY' 'KEY' ) | @( 'NO' 'MODIFY' ) | @( 'NO' 'DEFAULT' ) | @'NODEFAULT' | @'NOMODIFY' )*"`
}

type createIndex struct {
	Name   string `parser:"'INDEX' @Ident"`
	Table  *name  `parser:"'ON' @@"`
	Using  string `parser:"( 'USING' @( 'HASH' | 'TREE' ) )?"`
	Column string `parser:"'(' @Ident ')'"`
}

type alterStatement struct {
	Table   *alterTable   `parser:"'ALTER' (  @@"`
	Trigger *alterTrigger `parser:"| @@ )"`
}

type alterTable struct {
	Name    *name          `parser:"'TABLE' @@"`
	Changes []*alterColumn `parser:"( @@ ','? )+"`
}

type alterColumn struct {
	Add  *columnDef `parser:"(  'ADD' 'COLUMN'? @@"`
	Drop string     `parser:"| 'DROP' 'COLUMN'? @Ident )"`
}

type alterTrigger struct {
	Group   bool   `parser:"'TRIGGER' @'GROUP'?"`
	Name    string `parser:"@Ident 'SET' 'ENABLED'"`
	Enabled string `parser:"@( 'TRUE' | 'FALSE' )"`
}

type dropStatement struct {
	Database string `parser:"'DROP' (  'DATABASE' @Ident"`
	Table    *name  `parser:"| 'TABLE' @@"`
	Index    string `parser:"| 'INDEX' @Ident )"`
}

type useStatement struct {
	Database string `parser:"'USE' 'DATABASE'? @Ident"`
}

type serviceStatement struct {
	Name  *slot `parser:"'SVC' 'UPDATE' @Slot"`
	State *slot `parser:"','? @Slot"`
}

// Expressions, from what binds loosest.

type expr struct {
	Terms []*xorTerm `parser:"@@ ( 'OR' @@ )*"`
}

type xorTerm struct {
	Terms []*andTerm `parser:"@@ ( 'XOR' @@ )*"`
}

type andTerm struct {
	Terms []*notTerm `parser:"@@ ( 'AND' @@ )*"`
}

type notTerm struct {
	Not     []string    `parser:"@'NOT'*"`
	Compare *comparison `parser:"@@"`
}

type comparison struct {
	Left *sum         `parser:"@@"`
	Tail *compareTail `parser:"@@?"`
}

type compareTail struct {
	Op      string      `parser:"(  @( '=' | '==' | '<>' | '!=' | '<=' | '>=' | '<' | '>' | '%=' | '%<>' | '%!=' | '%<=' | '%>=' | '%<' | '%>' )"`
	Any     *quantified `parser:"(  @@"`
	Right   *sum        `parser:"| @@ )"`
	Not     bool        `parser:"| @'NOT'?"`
	Like    *likeTail   `parser:"(  'LIKE' @@"`
	In      *set        `parser:"| 'IN' @@"`
	Between *between    `parser:"| 'BETWEEN' @@ ) )"`
}

type likeTail struct {
	Any     *quantified `parser:"(  @@"`
	Pattern *sum        `parser:"| @@ )"`
}

type quantified struct {
	Quantifier string `parser:"@( 'ANY' | 'ALL' )"`
	Set        *set   `parser:"@@"`
}

type set struct {
	Sub  *selectStatement `parser:"'(' (  @@"`
	List []*expr          `parser:"| @@ ( ',' @@ )* ) ')'"`
}

type between struct {
	Low  *sum `parser:"@@"`
	High *sum `parser:"'AND' @@"`
}

type sum struct {
	First *product  `parser:"@@"`
	Rest  []*sumEnd `parser:"@@*"`
}

type sumEnd struct {
	Op   string   `parser:"@( '+' | '-' )"`
	Term *product `parser:"@@"`
}

type product struct {
	First *unary        `parser:"@@"`
	Rest  []*productEnd `parser:"@@*"`
}

type productEnd struct {
	Op   string `parser:"@( '*' | '/' )"`
	Term *unary `parser:"@@"`
}

type unary struct {
	Signs   []string `parser:"@( '-' | '+' )*"`
	Primary *primary `parser:"@@"`
}

type primary struct {
	Slot  *slot            `parser:"(  @Slot"`
	Bool  string           `parser:"| @( 'TRUE' | 'FALSE' )"`
	Case  *caseExpr        `parser:"| @@"`
	Call  *call            `parser:"| @@"`
	Sub   *selectStatement `parser:"| '(' @@ ')'"`
	Paren *expr            `parser:"| '(' @@ ')'"`
	Ref   *name            `parser:"| @@ )"`
}

type caseExpr struct {
	Operand *expr   `parser:"'CASE' @@?"`
	Whens   []*when `parser:"@@+"`
	Else    *expr   `parser:"( 'ELSE' @@ )? 'END'"`
}

type when struct {
	When *expr `parser:"'WHEN' @@"`
	Then *expr `parser:"'THEN' @@"`
}

type call struct {
	Name     string  `parser:"@Ident '('"`
	Star     bool    `parser:"( @'*'"`
	Distinct bool    `parser:"| @'DISTINCT'?"`
	Args     []*expr `parser:"  @@ ( ',' @@ )* )? ')'"`
}

// slot stands for a literal of the statement.
type slot struct {
	Kind  LiteralKind
	Index int
}

// Capture implements participle's Capture.
func (s *slot) Capture(values []string) error {
	i, err := strconv.Atoi(values[0][1:])
	if err != nil {
		return fmt.Errorf("the token %q is no literal: %w", values[0], err)
	}
	s.Kind, s.Index = LiteralKind(values[0][0]), i
	return nil
}
