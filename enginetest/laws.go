package enginetest

import "fmt"

// Law is the number of a law of package mainstem, or [Contract].
type Law int

// The laws, by the names they have in the documentation of package mainstem.
const (
	Contract    Law = iota // a promise of a method or a type rather than of a law
	Atomic                 // 1
	Ordered                // 2
	Durable                // 3
	Conditional            // 4
	Honest                 // 5
	Idempotent             // 6
	Exact                  // 7
	Live                   // 8
)

var lawNames = [...]string{"contract", "atomic", "ordered, without holes", "durable as asked", "conditional",
	"honest outcome", "idempotent on request", "exact", "live"}

// String returns "the contract" or, for example, "law 2 (ordered, without holes)".
func (l Law) String() string {
	if l <= Contract || int(l) >= len(lawNames) {
		return "the contract"
	}
	return fmt.Sprintf("law %d (%s)", int(l), lawNames[l])
}

// folder is the first element of the names of a law's cases.
func (l Law) folder() string {
	return [...]string{"contract", "law1-atomic", "law2-ordered", "law3-durable", "law4-conditional",
		"law5-honest", "law6-idempotent", "law7-exact", "law8-live"}[l]
}
