package event

import "fmt"

// small is 61 bytes of JSON.
var small = Event{Type: "OrderCreated", Data: []byte(`{"orderId":"order-123","customerId":"cust-456","total":99.99}`)}

// described is small with metadata.
var described = Event{Type: small.Type, Data: small.Data, Metadata: &Metadata{
	Correlation: "corr-7f9c2ba4", Causation: "cause-19d4e8b2", User: "user-42", Tenant: "tenant-7",
	Custom: map[string]string{"source": "web", "$schema_version": "1", "request_id": "req-5d41402a"},
}}

// batch returns n events that differ, of 42 to 49 bytes while n is below 1,000.
func batch(n int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = Event{Type: "OrderEvent", Data: fmt.Appendf(nil, `{"orderId":"order-%d","seq":%d,"total":%d.50}`, i, i, i*10)}
	}
	return events
}

// numbered returns n small events that can be told apart, of a round.
func numbered(n, round int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = Event{Type: small.Type, Data: fmt.Appendf(nil, `{"orderId":"order-%d","customerId":"cust-%d","total":99.99}`, i, round)}
	}
	return events
}
