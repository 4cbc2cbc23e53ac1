package testnats

import "go.uber.org/goleak"

// IgnoreLibrary is an option of goleak for the tests of programs that put objects into an
// object store. Version 1.55 of nats.go begins a goroutine for each that reads its channel
// from a field. If the goroutine first runs after the object is there, the field is nil
// by then and the goroutine waits without end.
func IgnoreLibrary() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
