// Package syslog reads syslog messages, RFC 5424 and RFC 3164, and takes them out of
// streams, RFC 6587.
//
// # Words
//
// A [Message] is what [Parse] makes of the bytes of one message. A [Reader] takes
// messages out of a TCP stream.
//
//	m := syslog.Parse(datagram, nil)
//	fmt.Println(m.Severity, m.Hostname, m.AppName, m.Text)
//
// # Guarantees
//
// Parse takes everything: what follows neither RFC is a message of format [Plain] with
// the text as it came, as RFC 3164 asks of relays. It never panics, and its work is in
// proportion to the bytes. What RFC 3164 leaves open is read as devices write it: a
// year before or behind the time, fractions of seconds, names and numbers of zones,
// RFC 3339 times, sequence numbers and marks of routers, no host.
//
// # Concurrency and ownership
//
// Parse is pure. Messages keep no part of the bytes that they were read from. A
// Reader belongs to one goroutine.
//
// # Limits
//
// [DefaultMaxMessage] bytes for a message of a stream: of longer ones, the beginning is
// read. [MaxFrame] bytes for the length that a sender may announce.
//
// # Testing
//
// The examples of the RFCs and lines of devices, and fuzzing of both decoders.
//
//snippet:var datagram []byte
package syslog
