# What an order costs, in cents: total COUNT PRICE
# Orders of 10 pieces or more get 10 % off.
total() {
  echo $(( $1 + $2 ))
}

# How a price is shown.
shown() {
  printf '%d.%02d\n' $(( $1 / 100 )) $(( $1 % 100 ))
}
