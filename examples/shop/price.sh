# Prints the price of an order in cents: total COUNT PRICE
# Orders of 10 pieces or more get 10 % off.
total() {
  echo $(( $1 + $2 ))
}

# Formats a price: shown CENTS
shown() {
  printf '%d.%02d\n' $(( $1 / 100 )) $(( $1 % 100 ))
}
