package actor

import (
	"context"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

// mailbox is how many messages a channel of a sender and a receiver holds.
const mailbox = 1024

// channel is goroutines and channels: what actors in one process are compared with.
func channel() actor.Factory {
	return actor.Factory{
		Name: "go-channel", LocalOnly: true,
		Note: "a goroutine and a channel of 1,024 for each process; questions go over channels without a buffer, and an idle process has a channel of 1",
		Ping: func(_ context.Context, _ bool, sinks []*actor.Sink) (actor.Pinger, error) {
			return newChannels(sinks), nil
		},
		Ask:     func(context.Context, bool) (actor.Asker, error) { return newChannelAsker(), nil },
		Spawn:   func(context.Context) (actor.Population, error) { return &goroutines{}, nil },
		Publish: func(_ context.Context, a *actor.Audience) (actor.Publisher, error) { return newFanOut(a), nil },
	}
}

// channels has one for each sink, and a goroutine that reads from it.
type channels struct {
	to  []chan int
	all sync.WaitGroup
}

func newChannels(sinks []*actor.Sink) *channels {
	c := &channels{}
	for _, s := range sinks {
		ch := make(chan int, mailbox)
		c.to = append(c.to, ch)
		c.all.Go(func() {
			for v := range ch {
				s.Receive(v)
			}
		})
	}
	return c
}

func (c *channels) Burst(_ context.Context, counts []int) error {
	var senders sync.WaitGroup
	for i, n := range counts {
		senders.Go(func() {
			for v := range n {
				c.to[i] <- actor.Message(v)
			}
		})
	}
	senders.Wait()
	return nil
}

func (c *channels) Close() error {
	for _, ch := range c.to {
		close(ch)
	}
	c.all.Wait()
	return nil
}

// channelAsker asks a goroutine that adds one.
type channelAsker struct{ ask, answer chan int }

func newChannelAsker() *channelAsker {
	a := &channelAsker{make(chan int), make(chan int)}
	go func() {
		defer close(a.answer)
		for v := range a.ask {
			a.answer <- v + 1
		}
	}()
	return a
}

func (a *channelAsker) Ask(_ context.Context, v int) (int, error) {
	a.ask <- v
	return <-a.answer, nil
}

func (a *channelAsker) Close() error {
	close(a.ask)
	<-a.answer
	return nil
}

// goroutines are processes that wait on a channel each.
type goroutines struct {
	to  []chan int
	all sync.WaitGroup
}

func (g *goroutines) Spawn(_ context.Context, n int, receive func(int)) error {
	g.to = make([]chan int, n)
	for i := range g.to {
		ch := make(chan int, 1)
		g.to[i] = ch
		g.all.Go(func() {
			for range ch {
				receive(i)
			}
		})
	}
	return nil
}

func (g *goroutines) Poke(context.Context) error {
	for _, ch := range g.to {
		ch <- 1
	}
	return nil
}

func (g *goroutines) Close() error {
	for _, ch := range g.to {
		close(ch)
	}
	g.all.Wait()
	return nil
}

// fanOut is subscribers with a channel each.
type fanOut struct {
	to  []chan string
	all sync.WaitGroup
}

func newFanOut(a *actor.Audience) *fanOut {
	f := &fanOut{}
	f.subscribe(a, 0)
	return f
}

// subscribe starts the subscribers of one node.
func (f *fanOut) subscribe(a *actor.Audience, node int) {
	for i := range a.Each {
		ch := make(chan string, 1)
		f.to = append(f.to, ch)
		f.all.Go(func() {
			for text := range ch {
				a.Receive(node, i, text)
			}
		})
	}
}

func (f *fanOut) Publish(_ context.Context, text string) error {
	for _, ch := range f.to {
		ch <- text
	}
	return nil
}

func (f *fanOut) Close() error {
	for _, ch := range f.to {
		close(ch)
	}
	f.all.Wait()
	return nil
}
