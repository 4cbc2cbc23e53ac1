package main

func Example() {
	main()
	// Output:
	// placing it twice is a conflict: true
	// left: 6
	// event: order-1 OrderPlaced {"item":"tea","count":4}
	// message: 1 {"item":"tea","count":4}
}
