package kafka

import "sync/atomic"

// leastAnswer is how many bytes of record batches an answer may carry however many
// other answers wait for their clients to read them.
const leastAnswer = 64 << 10

// answers counts the bytes of record batches that are on their way to clients. An
// answer may carry half of what is left of a limit: so clients that fetch much and
// read slowly make all answers smaller, and do not take all memory. Clients ask for
// more anyway.
type answers struct{ carried atomic.Int64 }

// reserve lets an answer of a connection carry up to want more bytes, and returns how
// many it may.
func (c *conn) reserve(want int) int {
	a := &c.s.answers
	for {
		now := a.carried.Load()
		n := int64(min(want, max((c.s.o.MaxInFlight-int(now))/2, leastAnswer)))
		if a.carried.CompareAndSwap(now, now+n) {
			c.carries += n
			return int(n)
		}
	}
}

// carry notes that the answer carries more bytes than was reserved, or fewer.
func (c *conn) carry(change int) {
	c.carries += int64(change)
	c.s.answers.carried.Add(int64(change))
}

// delivered notes that the answer is gone, and takes back its memory.
func (c *conn) delivered() {
	c.carry(-int(c.carries))
	for _, b := range c.lent {
		putBuffer(b)
	}
	c.lent = c.lent[:0]
}
