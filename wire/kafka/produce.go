package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Produce, versions 0 to 13.
//
//	v3   record batches and transactions (KIP-98); versions 0 to 2 are answered with an error
//	v7   Zstandard (KIP-110)
//	v8   errors of records, with a message (KIP-467): only the message of a batch is given
//	v10  the current leader, if it is another broker (KIP-951): never
//	v12  producing to a partition adds it to the transaction (KIP-890)
//	v13  topics by ID (KIP-516)
//
// A request is served in these steps:
//
//  1. produceResponse finds the topic of each batch. A batch whose topic is missing or
//     cannot be written gets its error in the answer; each other one becomes a
//     producer.Append, in the order of the request.
//  2. Manager.Append checks the batches and stores them in one commit, in several if they
//     have more than 32 MiB. It sets the error or the offset of each Append. A batch that is
//     refused does not prevent the others.
//  3. The results are put into the answer. Invariant: the n-th partition of the answer
//     without an error of step 1 belongs to the n-th Append.

// Values of acks in a request, see [Server.produce].
const (
	acksAll    = -1
	acksNone   = 0
	acksLeader = 1
)

const (
	// minProduceVersion is the first version with record batches. Versions 0 to 2 are
	// advertised, but answered with UNSUPPORTED_VERSION: librdkafka before 2.11.1 compresses
	// only for a broker that advertises them (KAFKA-18659).
	minProduceVersion = 3
	// implicitTransaction is the first version in which producing to a partition adds
	// it to the transaction (KIP-890).
	implicitTransaction = 12
)

// produce stores the record batches of a request. With acks=all it answers when they have the
// durability of the log, with acks=1 when the operating system has them. With acks=0 it stores
// them as with acks=1 and does not answer; an error ends the connection.
func (s *Server) produce(ctx context.Context, c *conn, req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp, appends := s.produceResponse(ctx, c, req)
	if len(appends) > 0 {
		opts := producer.AppendOptions{TransactionalID: req.TransactionID, Implicit: req.Version >= implicitTransaction}
		if req.Acks != acksAll {
			opts.Durability = mainstem.OS
		}
		// A disconnect of the producer does not cancel the commit.
		s.producers.Append(context.WithoutCancel(ctx), opts, appends)
		s.countProduced(appends)
	}
	failed := error(nil)
	next := 0
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode == 0 {
				fillProduced(p, &appends[next])
				next++
			}
			if p.ErrorCode != 0 && failed == nil {
				failed = fmt.Errorf("produce to %s, partition %d: %w", t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	if req.Acks == acksNone {
		c.failed = failed // without an answer, closing the connection is the only way to report it
		return nil
	}
	return resp
}

// produceResponse returns an answer with an entry for each partition of the request, and the
// appends of those whose entry has no error. The appends refer to the memory of the request.
func (s *Server) produceResponse(ctx context.Context, c *conn, req *kmsg.ProduceRequest) (*kmsg.ProduceResponse, []producer.Append) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	var appends []producer.Append
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		to, code, message := s.writable(ctx, c, req, t)
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &out.Partitions[j]
			p.Default()
			p.Partition, p.BaseOffset, p.ErrorCode = t.Partitions[j].Partition, -1, code
			if message != "" {
				p.ErrorMessage = &message
			}
			if code == 0 {
				appends = append(appends, producer.Append{Topic: to, Partition: p.Partition, Batch: t.Partitions[j].Records})
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, appends
}

// writable returns the topic that the batches of t are for, or the error code for them and a
// message, "" for none.
func (s *Server) writable(ctx context.Context, c *conn, req *kmsg.ProduceRequest, t *kmsg.ProduceRequestTopic) (*topic.Topic, int16, string) {
	switch {
	case req.Version < minProduceVersion:
		return nil, kerr.UnsupportedVersion.Code, ""
	case req.Acks != acksAll && req.Acks != acksNone && req.Acks != acksLeader:
		return nil, kerr.InvalidRequiredAcks.Code, ""
	}
	src, err := s.recently(ctx, t.Topic, t.TopicID)
	if err != nil {
		code := s.failure(c, "Produce", err)
		if code == kerr.UnknownTopicOrPartition.Code && t.Topic == "" {
			code = kerr.UnknownTopicID.Code
		}
		return nil, code, ""
	}
	to, ok := src.(*topic.Topic)
	if !ok {
		return nil, kerr.InvalidTopicException.Code, fmt.Sprintf("%s shows %s: what it shows is written there, not produced", src.Name(), contents(src))
	}
	return to, 0, ""
}

// fillProduced puts the result of an append into its entry of the answer.
func fillProduced(p *kmsg.ProduceResponseTopicPartition, a *producer.Append) {
	if p.ErrorCode = a.Code; a.Code != 0 {
		if a.Message != "" {
			p.ErrorMessage = &a.Message
		}
		return
	}
	p.BaseOffset, p.LogStartOffset = a.Base, a.Start
	if !a.Time.IsZero() {
		p.LogAppendTime = a.Time.UnixMilli()
	}
}
