package recordbatch_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Building a batch, checking it as a broker does, and reading its records.
func Example() {
	var b recordbatch.Builder
	b.Append(&recordbatch.Record{Timestamp: 1000, Key: []byte("anna"), Value: []byte("3 apples")})
	b.Append(&recordbatch.Record{Timestamp: 1001, Key: []byte("ben"), Value: nil})
	data, err := b.Finish(recordbatch.None)
	if err != nil {
		panic(err)
	}
	h, err := recordbatch.Verify(data, recordbatch.Check{MaxBytes: 1 << 20})
	fmt.Println(h.NumRecords, "records,", len(data), "bytes,", err)

	var d recordbatch.Decoder
	for r, err := range d.Records(data, 40) { // the partition has 40 records already
		fmt.Printf("%d %s null=%v %v\n", r.Offset, r.Key, r.Value == nil, err)
	}

	data[len(data)-1] ^= 1
	_, err = recordbatch.Verify(data, recordbatch.Check{})
	fmt.Println(err.(*recordbatch.Error).Reason)
	// Output:
	// 2 records, 90 bytes, <nil>
	// 40 anna null=false <nil>
	// 41 ben null=true <nil>
	// corrupt
}
