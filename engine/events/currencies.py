"""ISO 4217: the codes of currencies in use, and the decimals of each.

Source: the list of the standard's maintenance agency (SIX Group), amendment 176, without metals, test and fund codes of bonds.
"""

from __future__ import annotations

from typing import Final

_TWO: Final = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE "
    "CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD "
    "KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR "
    "PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU "
    "UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
)
_NONE: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"

CURRENCIES: Final[dict[str, int]] = (
    dict.fromkeys(_TWO.split(), 2) | dict.fromkeys(_NONE.split(), 0) | dict.fromkeys(_THREE.split(), 3)
)
"""Code → decimals of an amount."""
